/* Duplicates of one network in many threads, with memory of the program's own, of a descriptor's
 * and cached; run, triggered and waited for, and in a group.
 * usage: threads MODEL INPUT OUTPUT THREADS */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

enum { MOST_THREADS = 16, RUNS = 20 };

struct worker {
    pthread_t thread;
    vip_network network;
    vip_buffer source, target;
    const void *values;
    size_t size;
};

/* Memory for the input, of another kind for each worker. */
static vip_buffer make_source(struct worker *worker, int kind) {
    vip_buffer_create_params_t params = describe(worker->network, vip_query_input, 0);
    vip_uint32_t size = (vip_uint32_t)(worker->size + 63) / 64 * 64;
    vip_buffer buffer = NULL;
    if (kind == 0) {
        void *memory = aligned_alloc(64, size);
        REQUIRE(memory);
        REQUIRE(vip_create_buffer_from_handle(&params, (char *)memory + 1, size, &buffer) ==
                VIP_ERROR_INVALID_ARGUMENTS);
        REQUIRE(vip_create_buffer_from_handle(&params, memory, size, &buffer) == VIP_SUCCESS);
    } else if (kind == 1) {
        int fd = memfd_create("input", 0);
        REQUIRE(fd >= 0 && !ftruncate(fd, size));
        REQUIRE(vip_create_buffer_from_fd(&params, (vip_uint32_t)fd, size, &buffer) == VIP_SUCCESS);
        REQUIRE(!close(fd));
#ifndef OLD_FORMS
    } else if (kind == 2) {
        REQUIRE(vip_create_buffer_cache(&params, 0, &buffer) == VIP_SUCCESS);
#endif
    } else {
        REQUIRE(vip_create_buffer(&params, 0, &buffer) == VIP_SUCCESS);
    }
    return buffer;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int run = 0; run < RUNS; run++) {
        memcpy(vip_map_buffer(worker->source), worker->values, worker->size);
        REQUIRE(vip_flush_buffer(worker->source, VIP_BUFFER_OPER_TYPE_FLUSH) == VIP_SUCCESS);
        REQUIRE(vip_set_input(worker->network, 0, worker->source) == VIP_SUCCESS);
        REQUIRE(vip_set_output(worker->network, 0, worker->target) == VIP_SUCCESS);
        if (run % 2) {
            REQUIRE(vip_trigger_network(worker->network) == VIP_SUCCESS);
            REQUIRE(vip_wait_network(worker->network) == VIP_SUCCESS);
        } else {
            REQUIRE(vip_run_network(worker->network) == VIP_SUCCESS);
        }
    }
    return NULL;
}

static void prepare(struct worker *worker, vip_network original, int number) {
    vip_uint8_t priority = (vip_uint8_t)number;
    vip_uint32_t milliseconds = 60000;
    if (number == 0) {
        worker->network = original;
    } else {
        REQUIRE(vip_dup_network(NULL, 0, VIP_DUP_FROM_NETWORK, original, &worker->network) ==
                VIP_SUCCESS);
    }
    REQUIRE(vip_set_network(worker->network, VIP_NETWORK_PROP_SET_PRIORITY, &priority) ==
            VIP_SUCCESS);
    REQUIRE(vip_set_network(worker->network, VIP_NETWORK_PROP_SET_TIME_OUT, &milliseconds) ==
            VIP_SUCCESS);
    REQUIRE(vip_prepare_network(worker->network) == VIP_SUCCESS);
    worker->source = make_source(worker, number % 4);
    worker->target = make_buffer(worker->network, vip_query_output, 0);
}

static void run_as_group(struct worker *workers, int number) {
    vip_group group = NULL;
    vip_inference_profile_t profile;
    REQUIRE(vip_create_group((vip_uint32_t)number, &group) == VIP_SUCCESS);
    for (int i = 0; i < number; i++)
        REQUIRE(vip_add_network(group, workers[i].network) == VIP_SUCCESS);
    REQUIRE(vip_add_network(group, workers[0].network) != VIP_SUCCESS);
    REQUIRE(vip_run_group(group, (vip_uint32_t)number) == VIP_SUCCESS);
    REQUIRE(vip_query_group(group, VIP_GROUP_PROP_PROFILING, &profile) == VIP_SUCCESS);
    REQUIRE(profile.inference_time > 0);
    REQUIRE(vip_destroy_group(group) == VIP_SUCCESS);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 5);
    int number = atoi(argv[4]);
    REQUIRE(number > 0 && number <= MOST_THREADS);
    start_driver();
    vip_network original = NULL;
    REQUIRE(vip_create_network(argv[1], 0, VIP_CREATE_NETWORK_FROM_FILE, &original) ==
            VIP_SUCCESS);
    struct worker workers[MOST_THREADS] = {0};
    size_t size;
    void *values = read_file(argv[2], &size);
    for (int i = 0; i < number; i++) {
        workers[i].values = values;
        workers[i].size = size;
        prepare(&workers[i], original, i);
    }
    for (int i = 0; i < number; i++)
        REQUIRE(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    for (int i = 0; i < number; i++)
        REQUIRE(!pthread_join(workers[i].thread, NULL));
    run_as_group(workers, number);
    FILE *output = fopen(argv[3], "wb");
    REQUIRE(output);
    for (int i = 0; i < number; i++) {
        append_file(output, workers[i].target);
        REQUIRE(vip_destroy_network(workers[i].network) == VIP_SUCCESS);
    }
    REQUIRE(!fclose(output));
    free(values);
    /* The buffers go with the driver. */
    REQUIRE(vip_destroy() == VIP_SUCCESS);
    return 0;
}
