/* Steps of other libraries' kernels, as sharing.h runs them. */
#define _GNU_SOURCE
#include "sharing.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void anynpu_steps_run(const struct chain *chain) {
    run_chain(chain);
}
