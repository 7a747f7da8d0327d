/* Which form of the kernels runs: plain C for any processor, or vectors that this one has.
 *
 * Every library of kernels includes this file and so exports the same four functions, by which
 * anynpu/native/forms.py asks what there is, and chooses. What a processor has is only looked for
 * here, and the choice is only made here.
 *
 * Forms are in order: the last one that a processor has is its best. Those of x86 from AVX2 on may use
 * what AVX2 needs, and each one what it needs itself. To add one, name it in `enum form` and `forms`,
 * with what it needs; kernels that have no such form go on with one before.
 */
#ifndef ANYNPU_CPU_H
#define ANYNPU_CPU_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* In front of a loop whose rounds are known when it is compiled, 16 at most: there is none left, so that
 * arrays may be in registers. Clang would leave loops of fewer rounds than GCC's number as they are. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <immintrin.h>
#define X86 1
#define WITH_AVX2 __attribute__((target("avx2,fma,f16c")))
#else
#define WITH_AVX2
#endif

/* Products of bytes, four to a sum: on x86 those without a sign times those with one. Compilers learned
 * the words at different times. */
#ifdef ANYNPU_EMULATED
/* A test's header has functions in the place of what the processor lacks. */
#include ANYNPU_EMULATED
#elif defined(X86) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define DOTS 1
#define AVX512 1 /* and so all of its words, for kernels that don't multiply bytes */
#define WITH_AVX_VNNI __attribute__((target("avx2,fma,f16c,avxvnni")))
#define WITH_AVX512_VNNI                                                                           \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#elif defined(__aarch64__) && defined(__linux__) && (__GNUC__ >= 10 || __clang_major__ >= 16)
#include <arm_neon.h>
#include <sys/auxv.h>
#define DOTS 1
#define WITH_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#define WITH_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#endif

enum form {
    PLAIN,
#ifdef X86
    AVX2, /* with FMA and F16C, which the processors with AVX2 have */
#ifdef DOTS
    AVX_VNNI,
    AVX512_VNNI, /* with F, BW, DQ and VL; not all of them have AVX-VNNI */
#endif
#elif defined(DOTS)
    DOTPROD,
    I8MM,
#endif
    FORMS,
};

static int has_plain(void) {
    return 1;
}

#ifdef X86
enum { EAX, EBX, ECX, EDX };

/* What CPUID says in eax, ebx, ecx or edx of a leaf, and what the operating system saves of registers.
 * Not by __builtin_cpu_supports: zig's says no to everything. */
static int has_bits(unsigned leaf, unsigned subleaf, int word, unsigned bits) {
    unsigned words[4] = {0};
    return __get_cpuid_count(leaf, subleaf, &words[0], &words[1], &words[2], &words[3]) &&
           (words[word] & bits) == bits;
}

static int saves_registers(unsigned states) {
    unsigned low, high;
    if (!has_bits(1, 0, ECX, 1u << 27)) /* OSXSAVE: XGETBV may be asked */
        return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & states) == states;
}

static int has_vectors(void) {
    return has_bits(1, 0, ECX, 1u << 12 | 1u << 29) && /* FMA, F16C */
           has_bits(7, 0, EBX, 1u << 5) && saves_registers(1u << 1 | 1u << 2);
}

#ifdef DOTS
#ifdef ANYNPU_EMULATED
#define has_avx_vnni has_vectors
#define has_avx512_vnni has_vectors
#else
static int has_avx_vnni(void) {
    return has_vectors() && has_bits(7, 1, EAX, 1u << 4);
}

static int has_avx512_vnni(void) {
    return has_vectors() && saves_registers(7u << 5) &&
           has_bits(7, 0, EBX, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) && /* F, DQ, BW, VL */
           has_bits(7, 0, ECX, 1u << 11);
}
#endif
#endif
#elif defined(DOTS)
/* By the bits' numbers, which older headers lack. */
static int has_dotprod(void) {
    return (getauxval(AT_HWCAP) & 1 << 20) != 0;
}

static int has_i8mm(void) {
    return has_dotprod() && (getauxval(AT_HWCAP2) & 1 << 13) != 0;
}
#endif

static const struct {
    const char *name;
    int (*is_there)(void);
} forms[FORMS] = {
    {"plain", has_plain},
#ifdef X86
    {"avx2", has_vectors},
#ifdef DOTS
    {"avx_vnni", has_avx_vnni},
    {"avx512_vnni", has_avx512_vnni},
#endif
#elif defined(DOTS)
    {"dotprod", has_dotprod},
    {"i8mm", has_i8mm},
#endif
};

static int32_t running_form;

/* How many there are to ask for; not every processor has all of them. */
EXPORT int32_t anynpu_forms(void) {
    return FORMS;
}

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

/* Whether a form has what WITH_AVX512_VNNI says, and the compiler knows its words. */
INLINE int has_avx512(int32_t form) {
#ifdef AVX512
    return form >= AVX512_VNNI;
#else
    (void)form;
    return 0;
#endif
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

/* Whether a form multiplies bytes. */
INLINE int has_dots(int32_t form) {
#if defined(DOTS) && defined(X86)
    return form >= AVX_VNNI;
#elif defined(DOTS)
    return form >= DOTPROD;
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
