/* libc.so.0, uClibc's name, in a process of glibc: what uClibc has and glibc has not.
 *
 * A vendor's library that is linked to uClibc finds the rest in the glibc of the process.
 */
#include <ctype.h>
#include <math.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define BELOW 128
#define CHARACTERS 384 /* -128 to 255 */

EXPORT const unsigned short *__ctype_b;
EXPORT const int16_t *__ctype_tolower;

static int16_t lower[CHARACTERS];

__attribute__((constructor)) static void fill_tables(void) {
    __ctype_b = *__ctype_b_loc();
    const int32_t *table = *__ctype_tolower_loc();
    for (int character = -BELOW; character < CHARACTERS - BELOW; character++)
        lower[character + BELOW] = (int16_t)(character < 0 ? character : table[character]);
    __ctype_tolower = lower + BELOW;
}

EXPORT int __isnan(double x) {
    return x != x;
}
EXPORT int __isinf(double x) {
    return x == HUGE_VAL ? 1 : x == -HUGE_VAL ? -1 : 0;
}

/* uClibc has its mathematics in the same library: a use of each keeps libm. */
EXPORT double anynpu_uses_libm(double x) {
    return rint(x) + log10(x) + (double)expf((float)x);
}
