/* What the engine of .nb files shares with Python; written by python -m
 * anynpu.soft.engines.vip.header. */

#ifndef ANYNPU_VIP_H
#define ANYNPU_VIP_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERNELS = 4,
    PIXELS = 8,
    QUAD = 4,
    LANES = 16,
    NOWHERE = -2147483648,
};

/* What becomes of a second operand: sums of 10 or of 16 significant bits, a product. */
enum addition {
    NOTHING = 0,
    SHORT_SUM = 1,
    LONG_SUM = 2,
    PRODUCT = 3,
};

/* Rows of pixels in memory.
 * row and plane are bytes of a channel, and of a group of channels that lies alone. Addresses
 * from end on are size lower, if that isn't 0. */
struct planes {
    uint8_t *base;
    int64_t offset;
    int64_t plane;
    int64_t row;
    int64_t group;
    int64_t end;
    int64_t size;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct planes, base) == 0, "planes.base");
_Static_assert(offsetof(struct planes, offset) == 8, "planes.offset");
_Static_assert(offsetof(struct planes, plane) == 16, "planes.plane");
_Static_assert(offsetof(struct planes, row) == 24, "planes.row");
_Static_assert(offsetof(struct planes, group) == 32, "planes.group");
_Static_assert(offsetof(struct planes, end) == 40, "planes.end");
_Static_assert(offsetof(struct planes, size) == 48, "planes.size");
_Static_assert(sizeof(struct planes) == 56, "planes");
#endif

/* Sums of products, and what makes bytes of them.
 * border is less 128; flip is what bytes are changed by first. The final image is the result's;
 * out is before a maximum of pool_size, 0 for none. weights of a dense kernel are quads of
 * channels' bytes less 128, which count from the kernel's weight_zero_points; those of a
 * depthwise one are as native/vip_depthwise.h says. quads_bias is the bias where quads are
 * multiplied by bytes without a sign. taps say where each pair of a dense kernel is in the packed
 * image. negative is NULL where negative sums are scaled as others. fits_float says that sums
 * scaled in float32 give the same bytes, least to most. operands are what each byte of the second
 * operand adds or multiplies. There are a bias and scales for whole LANES of channels. A unit of
 * work is rows of the final image for kernel_blocks blocks of KERNELS kernels, or as many
 * depthwise ones. */
struct convolution {
    struct planes source;
    struct planes target;
    struct planes second;
    int64_t channels;
    int64_t height;
    int64_t width;
    int64_t border;
    int64_t flip;
    int64_t top;
    int64_t left;
    int64_t kernel_height;
    int64_t kernel_width;
    int64_t stride;
    int64_t out_channels;
    int64_t out_height;
    int64_t out_width;
    int64_t pool_size;
    int64_t pool_stride;
    int64_t pool_top;
    int64_t pool_left;
    int64_t final_height;
    int64_t final_width;
    int64_t is_depthwise;
    const uint8_t *weights;
    const int16_t *weight_zero_points;
    const int32_t *taps;
    int64_t tap_count;
    const int32_t *bias;
    const int32_t *quads_bias;
    const double *scale;
    const double *negative;
    double low;
    double high;
    int64_t fits_float;
    int64_t least;
    int64_t most;
    int64_t addition;
    const float *operands;
    double constant;
    int64_t zero_point;
    int64_t output_flip;
    int64_t shuffles_depth;
    int64_t rows;
    int64_t row_blocks;
    int64_t kernel_blocks;
    int64_t packed_rows;
    int64_t packed_width;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct convolution, source) == 0, "convolution.source");
_Static_assert(offsetof(struct convolution, target) == 56, "convolution.target");
_Static_assert(offsetof(struct convolution, second) == 112, "convolution.second");
_Static_assert(offsetof(struct convolution, channels) == 168, "convolution.channels");
_Static_assert(offsetof(struct convolution, height) == 176, "convolution.height");
_Static_assert(offsetof(struct convolution, width) == 184, "convolution.width");
_Static_assert(offsetof(struct convolution, border) == 192, "convolution.border");
_Static_assert(offsetof(struct convolution, flip) == 200, "convolution.flip");
_Static_assert(offsetof(struct convolution, top) == 208, "convolution.top");
_Static_assert(offsetof(struct convolution, left) == 216, "convolution.left");
_Static_assert(offsetof(struct convolution, kernel_height) == 224, "convolution.kernel_height");
_Static_assert(offsetof(struct convolution, kernel_width) == 232, "convolution.kernel_width");
_Static_assert(offsetof(struct convolution, stride) == 240, "convolution.stride");
_Static_assert(offsetof(struct convolution, out_channels) == 248, "convolution.out_channels");
_Static_assert(offsetof(struct convolution, out_height) == 256, "convolution.out_height");
_Static_assert(offsetof(struct convolution, out_width) == 264, "convolution.out_width");
_Static_assert(offsetof(struct convolution, pool_size) == 272, "convolution.pool_size");
_Static_assert(offsetof(struct convolution, pool_stride) == 280, "convolution.pool_stride");
_Static_assert(offsetof(struct convolution, pool_top) == 288, "convolution.pool_top");
_Static_assert(offsetof(struct convolution, pool_left) == 296, "convolution.pool_left");
_Static_assert(offsetof(struct convolution, final_height) == 304, "convolution.final_height");
_Static_assert(offsetof(struct convolution, final_width) == 312, "convolution.final_width");
_Static_assert(offsetof(struct convolution, is_depthwise) == 320, "convolution.is_depthwise");
_Static_assert(offsetof(struct convolution, weights) == 328, "convolution.weights");
_Static_assert(offsetof(struct convolution, weight_zero_points) == 336,
               "convolution.weight_zero_points");
_Static_assert(offsetof(struct convolution, taps) == 344, "convolution.taps");
_Static_assert(offsetof(struct convolution, tap_count) == 352, "convolution.tap_count");
_Static_assert(offsetof(struct convolution, bias) == 360, "convolution.bias");
_Static_assert(offsetof(struct convolution, quads_bias) == 368, "convolution.quads_bias");
_Static_assert(offsetof(struct convolution, scale) == 376, "convolution.scale");
_Static_assert(offsetof(struct convolution, negative) == 384, "convolution.negative");
_Static_assert(offsetof(struct convolution, low) == 392, "convolution.low");
_Static_assert(offsetof(struct convolution, high) == 400, "convolution.high");
_Static_assert(offsetof(struct convolution, fits_float) == 408, "convolution.fits_float");
_Static_assert(offsetof(struct convolution, least) == 416, "convolution.least");
_Static_assert(offsetof(struct convolution, most) == 424, "convolution.most");
_Static_assert(offsetof(struct convolution, addition) == 432, "convolution.addition");
_Static_assert(offsetof(struct convolution, operands) == 440, "convolution.operands");
_Static_assert(offsetof(struct convolution, constant) == 448, "convolution.constant");
_Static_assert(offsetof(struct convolution, zero_point) == 456, "convolution.zero_point");
_Static_assert(offsetof(struct convolution, output_flip) == 464, "convolution.output_flip");
_Static_assert(offsetof(struct convolution, shuffles_depth) == 472, "convolution.shuffles_depth");
_Static_assert(offsetof(struct convolution, rows) == 480, "convolution.rows");
_Static_assert(offsetof(struct convolution, row_blocks) == 488, "convolution.row_blocks");
_Static_assert(offsetof(struct convolution, kernel_blocks) == 496, "convolution.kernel_blocks");
_Static_assert(offsetof(struct convolution, packed_rows) == 504, "convolution.packed_rows");
_Static_assert(offsetof(struct convolution, packed_width) == 512, "convolution.packed_width");
_Static_assert(sizeof(struct convolution) == 520, "convolution");
#endif

/* A byte of a space for each value: value i's is blocks[i / size] + inside[i % size].
 * There is none where inside is NOWHERE. */
struct places {
    const int32_t *blocks;
    const int32_t *inside;
    int64_t size;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct places, blocks) == 0, "places.blocks");
_Static_assert(offsetof(struct places, inside) == 8, "places.inside");
_Static_assert(offsetof(struct places, size) == 16, "places.size");
_Static_assert(sizeof(struct places) == 24, "places");
#endif

/* Bytes from places to places, through a table of 256 if there is one.
 * A source's place that is none gives border. item bytes lie at each place, 1 with a table; unit
 * places are a unit of work. */
struct move {
    const uint8_t *source;
    uint8_t *target;
    struct places origins;
    struct places places;
    const uint8_t *table;
    int64_t border;
    int64_t item;
    int64_t count;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct move, source) == 0, "move.source");
_Static_assert(offsetof(struct move, target) == 8, "move.target");
_Static_assert(offsetof(struct move, origins) == 16, "move.origins");
_Static_assert(offsetof(struct move, places) == 40, "move.places");
_Static_assert(offsetof(struct move, table) == 64, "move.table");
_Static_assert(offsetof(struct move, border) == 72, "move.border");
_Static_assert(offsetof(struct move, item) == 80, "move.item");
_Static_assert(offsetof(struct move, count) == 88, "move.count");
_Static_assert(offsetof(struct move, unit) == 96, "move.unit");
_Static_assert(sizeof(struct move) == 104, "move");
#endif

/* A compressed stream of coefficients, of which wanted values are decoded.
 * lengths and runs are bytes, a symbol each; without runs run_count is 0. end is set to the bit
 * after the last that was read. With is_wide values have 16 bits, the lower byte first. */
struct coded_stream {
    const uint8_t *bytes;
    int64_t size;
    int64_t bits;
    const uint8_t *lengths;
    const uint8_t *runs;
    int64_t run_count;
    int64_t average;
    int64_t is_wide;
    int16_t *values;
    int64_t wanted;
    int64_t end;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct coded_stream, bytes) == 0, "coded_stream.bytes");
_Static_assert(offsetof(struct coded_stream, size) == 8, "coded_stream.size");
_Static_assert(offsetof(struct coded_stream, bits) == 16, "coded_stream.bits");
_Static_assert(offsetof(struct coded_stream, lengths) == 24, "coded_stream.lengths");
_Static_assert(offsetof(struct coded_stream, runs) == 32, "coded_stream.runs");
_Static_assert(offsetof(struct coded_stream, run_count) == 40, "coded_stream.run_count");
_Static_assert(offsetof(struct coded_stream, average) == 48, "coded_stream.average");
_Static_assert(offsetof(struct coded_stream, is_wide) == 56, "coded_stream.is_wide");
_Static_assert(offsetof(struct coded_stream, values) == 64, "coded_stream.values");
_Static_assert(offsetof(struct coded_stream, wanted) == 72, "coded_stream.wanted");
_Static_assert(offsetof(struct coded_stream, end) == 80, "coded_stream.end");
_Static_assert(sizeof(struct coded_stream) == 88, "coded_stream");
#endif

/* One core's values, and how they become kernels.
 * kernels of each superblock; channels of each kernel, superblock by superblock; weights of a
 * kernel, of which block lie side by side; zero_points of each channel. With is_wide values are
 * weights as they are. */
struct core_values {
    int64_t superblocks;
    const int32_t *kernels;
    const int32_t *channels;
    int64_t weights;
    int64_t block;
    int64_t has_zero_points;
    int64_t is_signed;
    int64_t is_wide;
    int32_t *zero_points;
    const int16_t *values;
    int16_t *target;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct core_values, superblocks) == 0, "core_values.superblocks");
_Static_assert(offsetof(struct core_values, kernels) == 8, "core_values.kernels");
_Static_assert(offsetof(struct core_values, channels) == 16, "core_values.channels");
_Static_assert(offsetof(struct core_values, weights) == 24, "core_values.weights");
_Static_assert(offsetof(struct core_values, block) == 32, "core_values.block");
_Static_assert(offsetof(struct core_values, has_zero_points) == 40, "core_values.has_zero_points");
_Static_assert(offsetof(struct core_values, is_signed) == 48, "core_values.is_signed");
_Static_assert(offsetof(struct core_values, is_wide) == 56, "core_values.is_wide");
_Static_assert(offsetof(struct core_values, zero_points) == 64, "core_values.zero_points");
_Static_assert(offsetof(struct core_values, values) == 72, "core_values.values");
_Static_assert(offsetof(struct core_values, target) == 80, "core_values.target");
_Static_assert(sizeof(struct core_values) == 88, "core_values");
#endif

#endif
