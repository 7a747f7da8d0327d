/* AVX-VNNI and AVX-512 VNNI by SIMDe's functions, so that any processor with AVX2 runs their forms:
 * native/cpu.h includes it where ANYNPU_EMULATED names it. For -mavx2 -mfma -mf16c. */
#include <simde/x86/avx512.h>

#define DOTS 1
#define WITH_AVX_VNNI WITH_AVX2
#define WITH_AVX512_VNNI WITH_AVX2

#define __m512i simde__m512i
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#undef _mm256_dpbusd_epi32
#define _mm256_dpbusd_epi32 simde_mm256_dpbusd_epi32
#define _mm512_castsi256_si512 simde_mm512_castsi256_si512
#define _mm512_castsi512_si256 simde_mm512_castsi512_si256
#define _mm512_dpbusd_epi32 simde_mm512_dpbusd_epi32
#define _mm512_extracti64x4_epi64 simde_mm512_extracti64x4_epi64
#define _mm512_inserti64x4 simde_mm512_inserti64x4
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_mullo_epi32 simde_mm512_mullo_epi32
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_set1_epi8 simde_mm512_set1_epi8
#define _mm512_sub_epi32 simde_mm512_sub_epi32
#define _mm512_xor_si512 simde_mm512_xor_si512
