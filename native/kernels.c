/* Array kernels: what NumPy does slowly, element by element, in one pass each.
 *
 * Plain C11. NumPy gives the same values, where the kernels aren't built; only what is no number may
 * differ, in bits that mean nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arrays.h"
#include "cpu.h"
#include "half.h"

#define UNROLLED_BLOCK _Pragma("GCC unroll 32")

/* How one run of elements becomes another: a conversion, or a copy. */
typedef void conversion(const struct affine *how, const void *source, void *target, size_t count);

/* ------------------------------------------------------------------------- float16 <-> float32 */

#ifdef X86
WITH_AVX2 static size_t to_half_by_eights(const float *source, uint16_t *target, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        store_eight_halves(target + i, _mm256_loadu_ps(source + i));
    return i;
}

WITH_AVX2 static size_t to_float_by_eights(const uint16_t *source, float *target, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(target + i, eight_floats(source + i));
    return i;
}
#endif

static void float_to_half(const struct affine *how, const void *values, void *halves,
                          size_t count) {
    (void)how;
    const float *source = values;
    uint16_t *target = halves;
    size_t i = 0;
#ifdef X86
    if (has_avx2(running_form))
        i = to_half_by_eights(source, target, count);
#endif
    for (; i < count; i++)
        target[i] = half_of_float(source[i]);
}

static void half_to_float(const struct affine *how, const void *halves, void *values,
                          size_t count) {
    (void)how;
    const uint16_t *source = halves;
    float *target = values;
    size_t i = 0;
#ifdef X86
    if (has_avx2(running_form))
        i = to_float_by_eights(source, target, count);
#endif
    for (; i < count; i++)
        target[i] = float_of_half(source[i]);
}

/* --------------------------------------------------------------------------- affine quantisation */

#define IN_EACH_FORM_OF_ELEMENTS(name, element, other)                                             \
    IN_EACH_FORM(name##_run,                                                                       \
                 (const struct affine *how, const element *source, other *target, size_t count),   \
                 (how, source, target, count))                                                     \
    static void name(const struct affine *how, const void *source, void *target, size_t count) {   \
        name##_run(how, source, target, count);                                                    \
    }

#define DEQUANTIZE(name, quantized)                                                                \
    INLINE void name##_run_inline(const struct affine *how, const quantized *restrict source,      \
                                  float *restrict target, size_t count) {                          \
        float scale = how->scale, zero = how->zero_point;                                          \
        for (size_t i = 0; i < count; i++)                                                         \
            target[i] = ((float)source[i] - zero) * scale;                                         \
    }                                                                                              \
    IN_EACH_FORM_OF_ELEMENTS(name, quantized, float)

DEQUANTIZE(dequantize_int8, int8_t)
DEQUANTIZE(dequantize_uint8, uint8_t)
DEQUANTIZE(dequantize_int16, int16_t)
DEQUANTIZE(dequantize_uint16, uint16_t)

/* Adding and taking away 1.5 * 2^23 rounds a small number to nearest, ties to even. Limiting comes
 * first, and what is no number becomes the lowest value. */
#define QUANTIZE(name, quantized, lowest, highest)                                                 \
    INLINE void name##_run_inline(const struct affine *how, const float *restrict source,          \
                                  quantized *restrict target, size_t count) {                      \
        float scale = how->scale, zero = how->zero_point;                                          \
        float low = (float)(lowest) - zero, high = (float)(highest) - zero;                        \
        for (size_t i = 0; i < count; i++) {                                                       \
            float value = source[i] / scale;                                                       \
            value = value > low ? value : low;                                                     \
            value = value < high ? value : high;                                                   \
            value = value + 0x1.8p23f - 0x1.8p23f;                                                 \
            target[i] = (quantized)(int32_t)(value + zero);                                        \
        }                                                                                          \
    }                                                                                              \
    IN_EACH_FORM_OF_ELEMENTS(name, float, quantized)

QUANTIZE(quantize_int8, int8_t, INT8_MIN, INT8_MAX)
QUANTIZE(quantize_uint8, uint8_t, 0, UINT8_MAX)
QUANTIZE(quantize_int16, int16_t, INT16_MIN, INT16_MAX)
QUANTIZE(quantize_uint16, uint16_t, 0, UINT16_MAX)

static void copy_bytes(const struct affine *how, const void *source, void *target, size_t count) {
    (void)how;
    memcpy(target, source, count);
}

static void copy_pairs(const struct affine *how, const void *source, void *target, size_t count) {
    (void)how;
    memcpy(target, source, count * 2);
}

static void copy_quads(const struct affine *how, const void *source, void *target, size_t count) {
    (void)how;
    memcpy(target, source, count * 4);
}

static const struct {
    conversion *convert;
    size_t source_size, target_size;
} conversions[] = {
    [UINT8_TO_UINT8] = {copy_bytes, 1, 1},           [UINT16_TO_UINT16] = {copy_pairs, 2, 2},
    [UINT32_TO_UINT32] = {copy_quads, 4, 4},         [INT8_TO_FLOAT32] = {dequantize_int8, 1, 4},
    [UINT8_TO_FLOAT32] = {dequantize_uint8, 1, 4},   [INT16_TO_FLOAT32] = {dequantize_int16, 2, 4},
    [UINT16_TO_FLOAT32] = {dequantize_uint16, 2, 4}, [FLOAT16_TO_FLOAT32] = {half_to_float, 2, 4},
    [FLOAT32_TO_INT8] = {quantize_int8, 4, 1},       [FLOAT32_TO_UINT8] = {quantize_uint8, 4, 1},
    [FLOAT32_TO_INT16] = {quantize_int16, 4, 2},     [FLOAT32_TO_UINT16] = {quantize_uint16, 4, 2},
    [FLOAT32_TO_FLOAT16] = {float_to_half, 4, 2},
};

#define CONVERSIONS (sizeof conversions / sizeof *conversions)

EXPORT int32_t anynpu_convert(uint32_t number, const struct affine *how, const void *source,
                              void *target, size_t count) {
    if (number >= CONVERSIONS)
        return -1;
    conversions[number].convert(how, source, target, count);
    return 0;
}

/* -------------------------------------------------------- channel blocks: NC1HWC2 to and from NCHW
 *
 * A strip of pixels goes through a buffer of rows, one for each channel of a block. A tile of it is
 * as many pixels as a vector has lanes, each with its C2 channels: C2 vectors. Interleaving the
 * first half of the vectors with the second rotates the bits of every element's address by one, and
 * as many times as a pixel's number has bits turn pixels of channels into channels of pixels.
 */

typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint16_t pairs __attribute__((vector_size(16)));

#define STRIP 256
#define WIDEST 4

#if defined(__clang__) || __GNUC__ >= 12
#define CHOOSE_BYTES(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define CHOOSE_PAIRS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CHOOSE_BYTES(a, b, ...) __builtin_shuffle(a, b, (bytes){__VA_ARGS__})
#define CHOOSE_PAIRS(a, b, ...) __builtin_shuffle(a, b, (pairs){__VA_ARGS__})
#endif
#define LOW_BYTES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_BYTES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_PAIRS 4, 12, 5, 13, 6, 14, 7, 15

#define ROTATE(name, vector, choose, low, high)                                                    \
    INLINE void name(vector *tile, size_t count, size_t times) {                                   \
        vector other[LARGEST_BLOCK];                                                               \
        UNROLLED_BLOCK for (size_t round = 0; round < times; round++) {                            \
            UNROLLED_BLOCK for (size_t i = 0; i < count / 2; i++) {                                \
                other[2 * i] = choose(tile[i], tile[i + count / 2], low);                          \
                other[2 * i + 1] = choose(tile[i], tile[i + count / 2], high);                     \
            }                                                                                      \
            memcpy(tile, other, count * sizeof *tile);                                             \
        }                                                                                          \
    }

ROTATE(rotate_bytes, bytes, CHOOSE_BYTES, LOW_BYTES, HIGH_BYTES)
ROTATE(rotate_pairs, pairs, CHOOSE_PAIRS, LOW_PAIRS, HIGH_PAIRS)

/* A strip of pixels of `block` channels, a power of two, to rows of channels, and back. */
#define STRIPS(kind, element, vector, lanes, pixel_bits, rotate)                                   \
    INLINE void kind##_to_rows_of(const element *source, element *rows, size_t block,              \
                                  size_t pixels) {                                                 \
        for (size_t i = 0; i < pixels; i += lanes) {                                               \
            vector tile[LARGEST_BLOCK];                                                            \
            memcpy(tile, source + i * block, block * sizeof *tile);                                \
            rotate(tile, block, pixel_bits);                                                       \
            UNROLLED_BLOCK for (size_t c = 0; c < block; c++)                                      \
                memcpy(rows + c * STRIP + i, &tile[c], sizeof *tile);                              \
        }                                                                                          \
    }                                                                                              \
    INLINE void kind##_from_rows_of(const element *rows, element *target, size_t block,            \
                                    size_t pixels) {                                               \
        for (size_t i = 0; i < pixels; i += lanes) {                                               \
            vector tile[LARGEST_BLOCK];                                                            \
            UNROLLED_BLOCK for (size_t c = 0; c < block; c++)                                      \
                memcpy(&tile[c], rows + c * STRIP + i, sizeof *tile);                              \
            rotate(tile, block, block == 16 ? 4 : block == 8 ? 3 : 2);                             \
            memcpy(target + i * block, tile, block * sizeof *tile);                                \
        }                                                                                          \
    }                                                                                              \
    INLINE void kind##_to_rows(const element *source, element *rows, size_t block,                 \
                               size_t pixels) {                                                    \
        if (block == 16)                                                                           \
            kind##_to_rows_of(source, rows, 16, pixels);                                           \
        else if (block == 8)                                                                       \
            kind##_to_rows_of(source, rows, 8, pixels);                                            \
        else                                                                                       \
            kind##_to_rows_of(source, rows, 4, pixels);                                            \
    }                                                                                              \
    INLINE void kind##_from_rows(const element *rows, element *target, size_t block,               \
                                 size_t pixels) {                                                  \
        if (block == 16)                                                                           \
            kind##_from_rows_of(rows, target, 16, pixels);                                         \
        else if (block == 8)                                                                       \
            kind##_from_rows_of(rows, target, 8, pixels);                                          \
        else                                                                                       \
            kind##_from_rows_of(rows, target, 4, pixels);                                          \
    }

STRIPS(bytes, uint8_t, bytes, 16, 4, rotate_bytes)
STRIPS(pairs, uint16_t, pairs, 8, 3, rotate_pairs)

/* One element after the other: for other sizes, and for the pixels that fill no strip. */
#define TRANSPOSE(size)                                                                            \
    INLINE void transpose_##size(const uint8_t *source, uint8_t *target, size_t rows,              \
                                 size_t source_step, size_t columns, size_t target_step) {         \
        for (size_t r = 0; r < rows; r++)                                                          \
            for (size_t c = 0; c < columns; c++)                                                   \
                memcpy(target + (r * target_step + c) * size,                                      \
                       source + (c * source_step + r) * size, size);                               \
    }

TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)

/* target[r][c] = source[c][r], rows lying a stride apart. */
INLINE void transpose(const uint8_t *source, uint8_t *target, size_t size, size_t rows,
                      size_t source_step, size_t columns, size_t target_step) {
    if (size == 1)
        transpose_1(source, target, rows, source_step, columns, target_step);
    else if (size == 2)
        transpose_2(source, target, rows, source_step, columns, target_step);
    else if (size == 8)
        transpose_8(source, target, rows, source_step, columns, target_step);
    else
        transpose_4(source, target, rows, source_step, columns, target_step);
}

static int has_tiles(size_t block, size_t size) {
    return (block == 4 || block == 8 || block == 16) && size < 4;
}

/* How many pixels of a strip are whole tiles; the others go one element after the other. */
INLINE size_t tiled(size_t size, size_t block, size_t pixels) {
    return has_tiles(block, size) ? pixels - pixels % (sizeof(bytes) / size) : 0;
}

INLINE void strip_to_rows(const uint8_t *source, uint8_t *rows, size_t size, size_t block,
                          size_t pixels) {
    size_t done = tiled(size, block, pixels);
    if (size == 1)
        bytes_to_rows(source, rows, block, done);
    else if (size == 2)
        pairs_to_rows((const uint16_t *)source, (uint16_t *)rows, block, done);
    if (done < pixels)
        transpose(source + done * block * size, rows + done * size, size, block, block,
                  pixels - done, STRIP);
}

INLINE void strip_from_rows(const uint8_t *rows, uint8_t *target, size_t size, size_t block,
                            size_t pixels) {
    size_t done = tiled(size, block, pixels);
    if (size == 1)
        bytes_from_rows(rows, target, block, done);
    else if (size == 2)
        pairs_from_rows((const uint16_t *)rows, (uint16_t *)target, block, done);
    if (block == 3) /* a picture's, which is worth vectors of its own */
        transpose(rows, target, size, pixels, STRIP, 3, 3);
    else if (done < pixels)
        transpose(rows + done * size, target + done * block * size, size, pixels - done, STRIP,
                  block, block);
}

static size_t at_most(size_t value, size_t limit) {
    return value < limit ? value : limit;
}

INLINE void unpack_inline(const struct blocks *how, const uint8_t *source, uint8_t *target) {
    conversion *convert = conversions[how->conversion].convert;
    size_t from = conversions[how->conversion].source_size;
    size_t to = conversions[how->conversion].target_size;
    uint64_t rows[LARGEST_BLOCK * STRIP * WIDEST / sizeof(uint64_t)];
    for (size_t n = 0; n < how->batch; n++)
        for (size_t c = 0; c < how->channels; c += how->block) {
            size_t block = n * how->blocks + c / how->block;
            const uint8_t *pixels = source + block * how->surface * how->block * from;
            uint8_t *planes = target + (n * how->channels + c) * how->pixels * to;
            size_t count = at_most(how->channels - c, how->block);
            for (size_t i = 0; i < how->pixels; i += STRIP) {
                size_t length = at_most(how->pixels - i, STRIP);
                strip_to_rows(pixels + i * how->block * from, (uint8_t *)rows, from, how->block,
                              length);
                for (size_t k = 0; k < count; k++)
                    convert(&how->affine, (uint8_t *)rows + k * STRIP * from,
                            planes + (k * how->pixels + i) * to, length);
            }
        }
}

INLINE void pack_inline(const struct blocks *how, const uint8_t *source, uint8_t *target) {
    conversion *convert = conversions[how->conversion].convert;
    size_t from = conversions[how->conversion].source_size;
    size_t to = conversions[how->conversion].target_size;
    uint64_t rows[LARGEST_BLOCK * STRIP * WIDEST / sizeof(uint64_t)];
    memset(rows, 0, sizeof rows);
    for (size_t n = 0; n < how->batch; n++)
        for (size_t b = 0; b < how->blocks; b++) {
            size_t c = at_most(b * how->block, how->channels);
            size_t count = at_most(how->channels - c, how->block);
            const uint8_t *planes = source + (n * how->channels + c) * how->pixels * from;
            uint8_t *pixels = target + (n * how->blocks + b) * how->surface * how->block * to;
            memset((uint8_t *)rows + count * STRIP * to, 0, (how->block - count) * STRIP * to);
            for (size_t i = 0; i < how->pixels; i += STRIP) {
                size_t length = at_most(how->pixels - i, STRIP);
                for (size_t k = 0; k < count; k++)
                    convert(&how->affine, planes + (k * how->pixels + i) * from,
                            (uint8_t *)rows + k * STRIP * to, length);
                strip_from_rows((uint8_t *)rows, pixels + i * how->block * to, to, how->block,
                                length);
            }
        }
}

IN_EACH_FORM(unpack, (const struct blocks *how, const uint8_t *source, uint8_t *target),
             (how, source, target))

IN_EACH_FORM(pack, (const struct blocks *how, const uint8_t *source, uint8_t *target),
             (how, source, target))

/* NC1HWC2 to NCHW, converted on the way. */
EXPORT int32_t anynpu_unpack(const struct blocks *how, const uint8_t *source, uint8_t *target) {
    if (how->conversion >= CONVERSIONS || how->block > LARGEST_BLOCK)
        return -1;
    unpack(how, source, target);
    return 0;
}

/* NCHW to NC1HWC2, converted on the way; channels that pad are zero. */
EXPORT int32_t anynpu_pack(const struct blocks *how, const uint8_t *source, uint8_t *target) {
    if (how->conversion >= CONVERSIONS || how->block > LARGEST_BLOCK)
        return -1;
    pack(how, source, target);
    return 0;
}

/* ------------------------------------------------------------------------- NCHW to and from NHWC */

EXPORT int32_t anynpu_to_channels_last(const struct image *how, const uint8_t *source,
                                       uint8_t *target) {
    size_t plane = how->height * how->width, size = how->size;
    for (size_t n = 0; n < how->batch; n++)
        for (size_t y = 0; y < how->height; y++) {
            const uint8_t *from = source + (n * how->channels * plane + y * how->width) * size;
            uint8_t *to = target + (n * how->height + y) * how->row * how->channels * size;
            switch (how->channels) {
            case 1: memcpy(to, from, how->width * size); break;
            case 3: transpose(from, to, size, how->width, plane, 3, 3); break;
            case 4: transpose(from, to, size, how->width, plane, 4, 4); break;
            default: transpose(from, to, size, how->width, plane, how->channels, how->channels);
            }
        }
    return 0;
}

/* --------------------------------------------- a request's arrays and a worker's memory, converted
 *
 * Steps of a program: the request brings the arrays' addresses and their conversions, the worker
 * the addresses of its memory, one for each array.
 */

static int32_t move(const struct transfer *transfer, const void *source, void *target,
                    int is_to_memory) {
    const void *how = (const void *)(uintptr_t)transfer->how;
    switch (transfer->kind) {
    case AS_ELEMENTS:
        return anynpu_convert((uint32_t)transfer->conversion, &transfer->affine, source, target,
                              transfer->count);
    case AS_BLOCKS:
        return is_to_memory ? anynpu_pack(how, source, target) : anynpu_unpack(how, source, target);
    case AS_PIXELS: return is_to_memory ? anynpu_to_channels_last(how, source, target) : -1;
    default: return -1;
    }
}

/* From arrays to memory. */
EXPORT int32_t anynpu_send(const struct transfer *transfers, void *const *memories, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const void *array = (const void *)(uintptr_t)transfers[i].array;
        if (move(&transfers[i], array, memories[i], 1))
            return -1;
    }
    return 0;
}

/* From memory to arrays. */
EXPORT int32_t anynpu_receive(const struct transfer *transfers, const void *const *memories,
                              size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *array = (void *)(uintptr_t)transfers[i].array;
        if (move(&transfers[i], memories[i], array, 0))
            return -1;
    }
    return 0;
}

/* Call a function for each of some handles, up to the first result that isn't 0. */
EXPORT int32_t anynpu_each(int32_t (*function)(void *, int32_t), void *const *handles, size_t count,
                           int32_t argument) {
    int32_t result = 0;
    for (size_t i = 0; i < count && !result; i++)
        result = function(handles[i], argument);
    return result;
}

/* --------------------------------------------- a request's inputs, made what its runtime takes
 *
 * A step of a program: the request brings what becomes of each of its arrays.
 */

/* What is no number stays what it is. Both arrays may be the same. */
INLINE void limit_inline(const float *source, float *target, size_t count, float low, float high) {
    for (size_t i = 0; i < count; i++) {
        float value = source[i];
        value = value < low ? low : value;
        target[i] = value > high ? high : value;
    }
}

IN_EACH_FORM(limit, (const float *source, float *target, size_t count, float low, float high),
             (source, target, count, low, high))

EXPORT int32_t anynpu_arrange(const struct arrangement *arrangements, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct arrangement *how = arrangements + i;
        const void *source = (const void *)(uintptr_t)how->source;
        void *target = (void *)(uintptr_t)how->target;
        if (how->kind == INTERLEAVED)
            anynpu_to_channels_last(&how->image, source, target);
        else if (how->kind == LIMITED)
            limit(source, target, how->count, how->low, how->high);
        else if (how->kind != AS_IT_IS)
            return -1;
    }
    return 0;
}

/* ------------------------------------------------------- numbers that the runtime takes in: pixels
 *
 * (N, H, W, C) numbers to (N, C, H, W), normalised, and quantised where the target has bytes. Each
 * channel has two constants, and each step is rounded to float32. Eight-bit numbers are looked up:
 * there is a table of 256 targets for each channel.
 */

#define PLANE 256 /* pixels that are worked on at a time */

#define GATHER(name, element)                                                                      \
    INLINE void name(const element *source, size_t step, element *target, size_t count) {          \
        for (size_t i = 0; i < count; i++)                                                         \
            target[i] = source[i * step];                                                          \
    }                                                                                              \
    INLINE void name##_channel(const element *source, size_t step, element *target,                \
                               size_t count) {                                                     \
        switch (step) { /* a constant step lets the compiler use vectors */                        \
        case 1: memcpy(target, source, count * sizeof *target); break;                             \
        case 3: name(source, 3, target, count); break;                                             \
        case 4: name(source, 4, target, count); break;                                             \
        default: name(source, step, target, count);                                                \
        }                                                                                          \
    }

GATHER(gather_quads, float)
GATHER(gather_pairs, uint16_t)

INLINE void real_plane(const struct pixels *how, const void *source, float *plane, size_t count) {
    if (how->source == FLOATS) {
        gather_quads_channel(source, how->channels, plane, count);
        return;
    }
    uint16_t halves[PLANE];
    gather_pairs_channel(source, how->channels, halves, count);
    half_to_float(NULL, halves, plane, count);
}

INLINE void normalize(float *plane, float first, float second, int divides, size_t count) {
    if (divides)
        for (size_t i = 0; i < count; i++)
            plane[i] = (plane[i] - first) / second;
    else
        for (size_t i = 0; i < count; i++)
            plane[i] = plane[i] * first + second;
}

/* Rounded to nearest, ties to even, and limited; what is no number becomes the highest value. */
INLINE void to_bytes(const float *plane, int8_t *target, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value = plane[i];
        value = value < INT8_MAX ? value : INT8_MAX;
        value = value > INT8_MIN ? value : INT8_MIN;
        target[i] = (int8_t)(int32_t)(value + 0x1.8p23f - 0x1.8p23f);
    }
}

INLINE void real_channel(const struct pixels *how, const void *source, size_t channel,
                         uint8_t *target, size_t count) {
    float plane[PLANE];
    real_plane(how, source, plane, count);
    normalize(plane, how->first[channel], how->second[channel], how->divides != 0, count);
    if (how->target == INTEGERS)
        to_bytes(plane, (int8_t *)target, count);
    else
        memcpy(target, plane, count * sizeof *plane);
}

INLINE void table_channel(const struct pixels *how, const uint8_t *source, size_t channel,
                          uint8_t *target, size_t count) {
    size_t step = how->channels;
    if (how->target == INTEGERS) {
        const uint8_t *table = (const uint8_t *)how->table + channel * 256;
        for (size_t i = 0; i < count; i++)
            target[i] = table[source[i * step]];
    } else {
        const float *table = (const float *)how->table + channel * 256;
        float *real = (float *)target;
        for (size_t i = 0; i < count; i++)
            real[i] = table[source[i * step]];
    }
}

INLINE void take_row(const struct pixels *how, const uint8_t *source, uint8_t *target) {
    static const size_t source_sizes[] = {4, 2, 1}, target_sizes[] = {4, 1};
    size_t from = source_sizes[how->source], to = target_sizes[how->target];
    size_t plane = how->height * how->width * to;
    for (size_t x = 0; x < how->width; x += PLANE) {
        size_t count = at_most(how->width - x, PLANE);
        for (size_t c = 0; c < how->channels; c++) {
            const uint8_t *first = source + (x * how->channels + c) * from;
            uint8_t *out = target + c * plane + x * to;
            if (how->source == BYTES)
                table_channel(how, first, c, out, count);
            else
                real_channel(how, first, c, out, count);
        }
    }
}

INLINE void take_pixels_inline(const struct pixels *how, const uint8_t *source, uint8_t *target) {
    static const size_t source_sizes[] = {4, 2, 1}, target_sizes[] = {4, 1};
    size_t from = how->channels * source_sizes[how->source], to = target_sizes[how->target];
    for (size_t n = 0; n < how->batch; n++)
        for (size_t y = 0; y < how->height; y++)
            take_row(how, source + (n * how->image + y * how->row) * from,
                     target + (n * how->channels * how->height + y) * how->width * to);
}

IN_EACH_FORM(take_pixels, (const struct pixels *how, const uint8_t *source, uint8_t *target),
             (how, source, target))

EXPORT int32_t anynpu_take_pixels(const struct pixels *how, const uint8_t *source,
                                  uint8_t *target) {
    if (how->source > BYTES || how->target > INTEGERS)
        return -1;
    take_pixels(how, source, target);
    return 0;
}

/* -------------------------------------------------------------------------- quantised, and wrapped
 *
 * (x + zero point * scale) * (1 / scale), each step rounded to float32, and that to a whole number.
 * As the runtime does it with what has other than four dimensions: a number beyond int8 loses its
 * higher bits, one beyond int32 is limited to that before, and what is no number is 0.
 */

INLINE int8_t wrapped(float value) {
    /* Adding and taking away rounds what has a fraction that matters; beyond, there is none. */
    float rounded = value < 0x1p22f && value > -0x1p22f ? value + 0x1.8p23f - 0x1.8p23f
                                                        : __builtin_rintf(value);
    if (rounded != rounded)
        return 0;
    if (rounded >= 0x1p31f)
        return (int8_t)-1; /* the low bits of the largest int32 */
    return rounded < -0x1p31f ? 0 : (int8_t)(uint8_t)(uint32_t)(int32_t)rounded;
}

INLINE void quantize_wrapping_inline(const struct affine *how, const float *restrict source,
                                     int8_t *restrict target, size_t count) {
    float zero = how->zero_point * how->scale, steps = 1 / how->scale;
    for (size_t i = 0; i < count; i++)
        target[i] = wrapped((source[i] + zero) * steps);
}

IN_EACH_FORM(quantize_wrapping,
             (const struct affine *how, const float *source, int8_t *target, size_t count),
             (how, source, target, count))

EXPORT int32_t anynpu_quantize_wrapping(const struct affine *how, const float *source,
                                        int8_t *target, size_t count) {
    quantize_wrapping(how, source, target, count);
    return 0;
}

/* q * scale - zero point * scale, each product and the difference rounded to float32. */
#define RESTORE(name, quantized)                                                                   \
    INLINE void name##_run_inline(const struct affine *how, const quantized *restrict source,      \
                                  float *restrict target, size_t count) {                          \
        float scale = how->scale, zero = how->zero_point * how->scale;                             \
        for (size_t i = 0; i < count; i++)                                                         \
            target[i] = (float)source[i] * scale - zero;                                           \
    }                                                                                              \
    IN_EACH_FORM_OF_ELEMENTS(name, quantized, float)

RESTORE(restore_int8, int8_t)

EXPORT int32_t anynpu_restore(const struct affine *how, const int8_t *source, float *target,
                              size_t count) {
    restore_int8(how, source, target, count);
    return 0;
}

/* ------------------------------------------------ cells of a detector's output that reach a threshold
 *
 * (blocks, cells, lanes) integers: channel c is lane c % lanes of block c / lanes, so planes have one
 * lane, and rows of channels one block. The blocks of a strip of cells are laid over each other,
 * which leaves the largest value of each lane; then some cells at a time are compared. Lanes of other
 * channels are limited to the lowest value, which reaches nothing: thresholds are above it.
 */

#define OVERLAID 4096 /* values of a strip */
#define LOOKED_AT 64

INLINE size_t lanes_before(size_t channel, size_t block, size_t lanes) {
    return channel <= block * lanes ? 0 : at_most(channel - block * lanes, lanes);
}

/* Repeat the first `size` bytes until there are `count` of them. */
INLINE void repeat(uint8_t *bytes, size_t size, size_t count) {
    for (size_t done = size; done < count; done *= 2)
        memcpy(bytes + done, bytes, at_most(count - done, done));
}

#define CELLS_REACHING(name, element, lowest, highest)                                             \
    /* Whether there are other channels in a block, and then the limits of its lanes. */           \
    INLINE int name##_limits(const struct threshold *how, size_t block, element *limits) {         \
        size_t lanes = how->lanes;                                                                 \
        size_t first = lanes_before(how->first, block, lanes);                                     \
        size_t last = lanes_before(how->last, block, lanes);                                       \
        if (first == 0 && last == lanes)                                                           \
            return 0;                                                                              \
        for (size_t lane = 0; lane < lanes; lane++)                                                \
            limits[lane] = lane >= first && lane < last ? highest : lowest;                        \
        repeat((uint8_t *)limits, lanes * sizeof *limits, OVERLAID * sizeof *limits);              \
        return 1;                                                                                  \
    }                                                                                              \
    INLINE void name##_overlay(element *restrict best, const element *restrict values,             \
                               const element *restrict limits, size_t count) {                     \
        for (size_t i = 0; i < count; i++) {                                                       \
            element value = values[i] < limits[i] ? values[i] : limits[i];                         \
            best[i] = best[i] > value ? best[i] : value;                                           \
        }                                                                                          \
    }                                                                                              \
    INLINE void name##_overlay_two(element *restrict best, const element *restrict values,         \
                                   const element *restrict others, size_t count) {                 \
        for (size_t i = 0; i < count; i++) {                                                       \
            element value = values[i] > others[i] ? values[i] : others[i];                         \
            best[i] = best[i] > value ? best[i] : value;                                           \
        }                                                                                          \
    }                                                                                              \
    INLINE int name##_reaches(const element *values, size_t count, element least) {                \
        element reaches = 0;                                                                       \
        for (size_t i = 0; i < count; i++)                                                         \
            reaches |= values[i] >= least;                                                         \
        return reaches;                                                                            \
    }                                                                                              \
    INLINE int64_t *name##_found(const element *best, size_t start, size_t count, size_t lanes,    \
                                 element least, int64_t *found) {                                  \
        size_t group = lanes < LOOKED_AT ? LOOKED_AT / lanes : 1;                                  \
        for (size_t i = 0; i < count; i += group) {                                                \
            size_t size = at_most(count - i, group);                                               \
            if (size * lanes == LOOKED_AT                                                          \
                    ? !name##_reaches(best + i * lanes, LOOKED_AT, least)                          \
                    : !name##_reaches(best + i * lanes, size * lanes, least))                      \
                continue;                                                                          \
            for (size_t cell = i; cell < i + size; cell++) {                                       \
                *found = (int64_t)(start + cell);                                                  \
                found += name##_reaches(best + cell * lanes, lanes, least);                        \
            }                                                                                      \
        }                                                                                          \
        return found;                                                                              \
    }                                                                                              \
    INLINE void name##_inline(const struct threshold *how, const element *values, int64_t *found,  \
                              int64_t **end) {                                                     \
        element best[OVERLAID], limits[2][OVERLAID];                                               \
        size_t lanes = how->lanes, strip = OVERLAID / lanes, surface = how->cells * lanes;         \
        size_t first = how->first / lanes, last = (how->last - 1) / lanes;                         \
        int is_first_partial = name##_limits(how, first, limits[0]);                               \
        int is_last_partial = first < last && name##_limits(how, last, limits[1]);                 \
        size_t whole = first + (size_t)is_first_partial,                                           \
               stop = last + 1 - (size_t)is_last_partial;                                          \
        for (size_t start = 0; start < how->cells; start += strip) {                               \
            size_t cells = at_most(how->cells - start, strip), count = cells * lanes;              \
            const element *from = values + start * lanes;                                          \
            for (size_t i = 0; i < count; i++)                                                     \
                best[i] = lowest;                                                                  \
            if (is_first_partial)                                                                  \
                name##_overlay(best, from + first * surface, limits[0], count);                    \
            for (size_t block = whole; block < stop; block += 2) {                                 \
                size_t other = block + 1 < stop ? block + 1 : block;                               \
                name##_overlay_two(best, from + block * surface, from + other * surface, count);   \
            }                                                                                      \
            if (is_last_partial)                                                                   \
                name##_overlay(best, from + last * surface, limits[1], count);                     \
            found = name##_found(best, start, cells, lanes, (element)how->least, found);           \
        }                                                                                          \
        *end = found;                                                                              \
    }                                                                                              \
    IN_EACH_FORM(                                                                                  \
        name, (const struct threshold *how, const element *values, int64_t *found, int64_t **end), \
        (how, values, found, end))

CELLS_REACHING(int8_cells, int8_t, INT8_MIN, INT8_MAX)
CELLS_REACHING(uint8_cells, uint8_t, 0, UINT8_MAX)
CELLS_REACHING(int16_cells, int16_t, INT16_MIN, INT16_MAX)
CELLS_REACHING(uint16_cells, uint16_t, 0, UINT16_MAX)

/* How many cells reach it; `found` has room for all. -1 for a form of cells that isn't taken. */
EXPORT int32_t anynpu_cells_reaching(const struct threshold *how, const void *values,
                                     int64_t *found) {
    int64_t *end = found;
    if (!how->lanes || how->lanes > MOST_LANES || how->first >= how->last)
        return -1;
    switch (how->element) {
    case INT8_CELLS: int8_cells(how, values, found, &end); break;
    case UINT8_CELLS: uint8_cells(how, values, found, &end); break;
    case INT16_CELLS: int16_cells(how, values, found, &end); break;
    case UINT16_CELLS: uint16_cells(how, values, found, &end); break;
    default: return -1;
    }
    return (int32_t)(end - found);
}

/* Bytes from one place to another, as a step of a program. */
EXPORT int32_t anynpu_copy(void *target, const void *source, size_t count) {
    memcpy(target, source, count);
    return 0;
}
