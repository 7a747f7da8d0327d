/* Which form of the kernels runs: plain C for any processor, or vectors that this one has.
 *
 * Every library of kernels includes this file and so exports the same three functions, by which
 * anynpu/native/forms.py asks what there is, and chooses. What a processor has is only looked for
 * here, and the choice is only made here.
 *
 * Forms are in order: each is better than those before it, and may use what those need. To add one,
 * name it in `enum form` and `forms`, with what it needs; kernels that have no such form go on with
 * the one before.
 */
#ifndef ANYNPU_CPU_H
#define ANYNPU_CPU_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <immintrin.h>
#define X86 1
#define WITH_AVX2 __attribute__((target("avx2,fma,f16c")))
#else
#define WITH_AVX2
#endif

enum form {
    PLAIN,
#ifdef X86
    AVX2, /* with FMA and F16C, which the processors with AVX2 have */
#endif
    FORMS,
};

static int has_plain(void) {
    return 1;
}

#ifdef X86
static int has_vectors(void) {
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    /* Not all compilers know the name of F16C. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static const struct {
    const char *name;
    int (*is_there)(void);
} forms[FORMS] = {
    {"plain", has_plain},
#ifdef X86
    {"avx2", has_vectors},
#endif
};

static int32_t running_form;

/* The form in which kernels run. */
EXPORT int32_t anynpu_form(void) {
    return running_form;
}

/* A form's name; NULL for one that this processor lacks, and for no form. */
EXPORT const char *anynpu_form_name(int32_t form) {
    return form >= 0 && form < FORMS && forms[form].is_there() ? forms[form].name : NULL;
}

/* Let kernels run in another form from now on; -1 where there is none. No kernel runs meanwhile. */
EXPORT int32_t anynpu_use_form(int32_t form) {
    if (!anynpu_form_name(form))
        return -1;
    running_form = form;
    return 0;
}

__attribute__((constructor)) static void choose_form(void) {
    for (int32_t form = 0; form < FORMS; form++)
        anynpu_use_form(form);
}

/* Whether a form has AVX2, FMA and F16C. */
INLINE int has_avx2(int32_t form) {
#ifdef X86
    return form >= AVX2;
#else
    (void)form;
    return 0;
#endif
}

/* A function from an inline one, compiled for each form; it runs in the form that was chosen. */
#ifdef X86
#define IN_EACH_FORM(name, parameters, arguments)                                                  \
    WITH_AVX2 static void name##_avx2 parameters {                                                 \
        name##_inline arguments;                                                                   \
    }                                                                                              \
    static void name##_plain parameters {                                                          \
        name##_inline arguments;                                                                   \
    }                                                                                              \
    static void name parameters {                                                                  \
        IN_THE_FORM(name, arguments);                                                              \
    }
#define IN_THE_FORM(name, arguments)                                                               \
    do {                                                                                           \
        if (has_avx2(running_form))                                                                \
            name##_avx2 arguments;                                                                 \
        else                                                                                       \
            name##_plain arguments;                                                                \
    } while (0)
#else
#define IN_EACH_FORM(name, parameters, arguments)                                                  \
    static void name##_plain parameters {                                                          \
        name##_inline arguments;                                                                   \
    }                                                                                              \
    static void name parameters {                                                                  \
        IN_THE_FORM(name, arguments);                                                              \
    }
#define IN_THE_FORM(name, arguments) name##_plain arguments
#endif

#endif
