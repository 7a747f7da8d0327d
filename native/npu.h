/* What the NPU's kernels share with Python; written by python -m
 * anynpu.soft.engines.rknpu.kernels.header. */

#ifndef ANYNPU_NPU_H
#define ANYNPU_NPU_H

#include <stddef.h>
#include <stdint.h>

enum {
    BLOCK = 60,
    LANES = 16,
    COLUMNS = 16,
    SLICE = 512,
    GROUP = 16,
    ROWS = 6,
    PAIRED_TOGETHER = 8,
    CHUNK = 256,
    AXES = 5,
    TABLE_ENTRIES = 513,
};

/* What a lane of an atom holds; the value is the registers' number for it. */
enum element {
    INT8 = 0,
    INT16 = 1,
    FLOAT16 = 2,
    BFLOAT16 = 3,
    INT32 = 4,
    FLOAT32 = 5,
};

/* What the second operand is, if it isn't a number. */
enum operand_kind {
    ONE_A_RESULT = 1,
    ONE_A_PIXEL = 2,
};

/* What the element-wise stage does with its two operands; int8 kernels know the first six. */
enum operation {
    NONE = 0,
    ADD = 1,
    SUBTRACT = 2,
    MAX = 3,
    MIN = 4,
    MULTIPLY = 5,
    DIVIDE = 6,
    ABS = 7,
    NEGATE = 8,
    FLOOR = 9,
    CEIL = 10,
    PRELU = 11,
    GREATER = 12,
};

/* What follows a bias and a factor: the short ways through the stages of int8.
 * SPLIT: shifts of positive and negative values differ; LEAK: BN multiplies negative values;
 * SECOND: BN multiplies and adds; ADDITION: an operand is added, with limits; INDEX: there is no
 * output conversion, values are places in a table. */
enum follow {
    NOTHING = 0,
    SPLIT = 1,
    LEAK = 2,
    SECOND = 4,
    ADDITION = 8,
    INDEX = 16,
};

/* What the general kernels do with what a window sees, channel by channel. */
enum method {
    PRODUCTS = 0,
    SUMS = 1,
    GREATEST = 2,
    LEAST = 3,
};

/* Features in channel blocks.
 * Where odd is set, every second block lies there. Channels from valid on count as zero. Nothing
 * past readable bytes from base on is touched. conversion, (4, 256), says what bytes become, by
 * channel % 4; or it is NULL. */
struct features {
    const uint8_t *base;
    const uint8_t *odd;
    int64_t surface;
    int64_t line;
    int64_t pixel;
    int64_t surfaces;
    int64_t lanes;
    int64_t channels;
    int64_t valid;
    int64_t height;
    int64_t width;
    int64_t element;
    int64_t readable;
    const float *conversion;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct features, base) == 0, "features.base");
_Static_assert(offsetof(struct features, odd) == 8, "features.odd");
_Static_assert(offsetof(struct features, surface) == 16, "features.surface");
_Static_assert(offsetof(struct features, line) == 24, "features.line");
_Static_assert(offsetof(struct features, pixel) == 32, "features.pixel");
_Static_assert(offsetof(struct features, surfaces) == 40, "features.surfaces");
_Static_assert(offsetof(struct features, lanes) == 48, "features.lanes");
_Static_assert(offsetof(struct features, channels) == 56, "features.channels");
_Static_assert(offsetof(struct features, valid) == 64, "features.valid");
_Static_assert(offsetof(struct features, height) == 72, "features.height");
_Static_assert(offsetof(struct features, width) == 80, "features.width");
_Static_assert(offsetof(struct features, element) == 88, "features.element");
_Static_assert(offsetof(struct features, readable) == 96, "features.readable");
_Static_assert(offsetof(struct features, conversion) == 104, "features.conversion");
_Static_assert(sizeof(struct features) == 112, "features");
#endif

/* What one output pixel sees.
 * inserted_y and inserted_x are rows and columns of padding between those of the input. */
struct window {
    int64_t height;
    int64_t width;
    int64_t stride_y;
    int64_t stride_x;
    int64_t dilation_y;
    int64_t dilation_x;
    int64_t top;
    int64_t left;
    int64_t inserted_y;
    int64_t inserted_x;
    int64_t out_height;
    int64_t out_width;
    float padding;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct window, height) == 0, "window.height");
_Static_assert(offsetof(struct window, width) == 8, "window.width");
_Static_assert(offsetof(struct window, stride_y) == 16, "window.stride_y");
_Static_assert(offsetof(struct window, stride_x) == 24, "window.stride_x");
_Static_assert(offsetof(struct window, dilation_y) == 32, "window.dilation_y");
_Static_assert(offsetof(struct window, dilation_x) == 40, "window.dilation_x");
_Static_assert(offsetof(struct window, top) == 48, "window.top");
_Static_assert(offsetof(struct window, left) == 56, "window.left");
_Static_assert(offsetof(struct window, inserted_y) == 64, "window.inserted_y");
_Static_assert(offsetof(struct window, inserted_x) == 72, "window.inserted_x");
_Static_assert(offsetof(struct window, out_height) == 80, "window.out_height");
_Static_assert(offsetof(struct window, out_width) == 88, "window.out_width");
_Static_assert(offsetof(struct window, padding) == 96, "window.padding");
_Static_assert(sizeof(struct window) == 104, "window");
#endif

/* Kernels as the hardware streams them: blocks of kernels, of channels, of places.
 * offsets are added to each kernel's weights, in whole groups; or NULL. row, if not 0, is the
 * elements of a kernel's row: pixels side by side, and padding. */
struct weights {
    const uint8_t *base;
    int64_t element;
    int64_t kernels;
    int64_t channels;
    int64_t kernel_group;
    int64_t channel_group;
    const float *offsets;
    int64_t row;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct weights, base) == 0, "weights.base");
_Static_assert(offsetof(struct weights, element) == 8, "weights.element");
_Static_assert(offsetof(struct weights, kernels) == 16, "weights.kernels");
_Static_assert(offsetof(struct weights, channels) == 24, "weights.channels");
_Static_assert(offsetof(struct weights, kernel_group) == 32, "weights.kernel_group");
_Static_assert(offsetof(struct weights, channel_group) == 40, "weights.channel_group");
_Static_assert(offsetof(struct weights, offsets) == 48, "weights.offsets");
_Static_assert(offsetof(struct weights, row) == 56, "weights.row");
_Static_assert(sizeof(struct weights) == 64, "weights");
#endif

/* A number a channel, or none.
 * values is an array of whole atoms or groups, of floats or for integers of doubles; stored lies
 * in memory, where a group of channels takes stride bytes. */
struct operand {
    const void *values;
    const uint8_t *stored;
    int64_t group;
    int64_t stride;
    int64_t element;
    int64_t channels;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct operand, values) == 0, "operand.values");
_Static_assert(offsetof(struct operand, stored) == 8, "operand.stored");
_Static_assert(offsetof(struct operand, group) == 16, "operand.group");
_Static_assert(offsetof(struct operand, stride) == 24, "operand.stride");
_Static_assert(offsetof(struct operand, element) == 32, "operand.element");
_Static_assert(offsetof(struct operand, channels) == 40, "operand.channels");
_Static_assert(sizeof(struct operand) == 48, "operand");
#endif

/* (v + add) * multiply, or with multiply_first v * multiply + add; then limits.
 * Integers are multiplied by positive or negative, 2^-shift, and rounded before the limits, which
 * are those of int32 where results may reach them. With subtracts the number is taken away; int8
 * kernels want its negative in values instead, and both operands there. */
struct stage {
    struct operand add;
    struct operand multiply;
    double lowest;
    double highest;
    double positive;
    double negative;
    int64_t subtracts;
    int64_t multiply_first;
    int64_t only_negatives;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stage, add) == 0, "stage.add");
_Static_assert(offsetof(struct stage, multiply) == 48, "stage.multiply");
_Static_assert(offsetof(struct stage, lowest) == 96, "stage.lowest");
_Static_assert(offsetof(struct stage, highest) == 104, "stage.highest");
_Static_assert(offsetof(struct stage, positive) == 112, "stage.positive");
_Static_assert(offsetof(struct stage, negative) == 120, "stage.negative");
_Static_assert(offsetof(struct stage, subtracts) == 128, "stage.subtracts");
_Static_assert(offsetof(struct stage, multiply_first) == 136, "stage.multiply_first");
_Static_assert(offsetof(struct stage, only_negatives) == 144, "stage.only_negatives");
_Static_assert(sizeof(struct stage) == 152, "stage");
#endif

/* Both look-up tables, one after the other: of negative values, and of the others.
 * What there is two of is in that order too; step is 1 / the distance of entries. lines are those
 * through two entries each, for float32, which does up to reach steps from 0; or NULL: see
 * FloatTable. */
struct table {
    const double *entries;
    const float *lines;
    double start[2];
    double end;
    double step[2];
    double slope[2];
    double reach;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct table, entries) == 0, "table.entries");
_Static_assert(offsetof(struct table, lines) == 8, "table.lines");
_Static_assert(offsetof(struct table, start) == 16, "table.start");
_Static_assert(offsetof(struct table, end) == 32, "table.end");
_Static_assert(offsetof(struct table, step) == 40, "table.step");
_Static_assert(offsetof(struct table, slope) == 56, "table.slope");
_Static_assert(offsetof(struct table, reach) == 72, "table.reach");
_Static_assert(sizeof(struct table) == 80, "table");
#endif

/* Ways through the stages of int8 for results that fit into 30 bits, with ties to even.
 * is_positive: BS adds first and has one shift and a ReLU, and only the output follows;
 * is_linear: BS adds first, and follow says what else there is. results are those of a table and
 * all that comes after it, for count whole numbers from first on; or NULL. is_whole: run_whole
 * knows the way, which rounds by adding 1.5 * 2^52. Sums and what BS adds to them are int32
 * together, and so are results even without limits; BS's and the operand's factors are short, the
 * output's scale is above 0 and at most 1, and its offset is whole. */
struct short_way {
    int64_t is_positive;
    int64_t is_linear;
    int64_t is_whole;
    int64_t follow;
    const int8_t *results;
    int64_t first;
    int64_t count;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct short_way, is_positive) == 0, "short_way.is_positive");
_Static_assert(offsetof(struct short_way, is_linear) == 8, "short_way.is_linear");
_Static_assert(offsetof(struct short_way, is_whole) == 16, "short_way.is_whole");
_Static_assert(offsetof(struct short_way, follow) == 24, "short_way.follow");
_Static_assert(offsetof(struct short_way, results) == 32, "short_way.results");
_Static_assert(offsetof(struct short_way, first) == 40, "short_way.first");
_Static_assert(offsetof(struct short_way, count) == 48, "short_way.count");
_Static_assert(sizeof(struct short_way) == 56, "short_way");
#endif

/* All stages between sums and what is stored.
 * The second operand is number where there are no features of it; integers are converted by
 * operand_offset and operand_scale, with the shift. product is 2^-shift of integers' products.
 * lowest and highest follow the operation. The output is multiplied by factor and gets addend
 * where either side is a float; integers to integers have scale, with the shift, and offset. Ties
 * go away from zero for an output or operand that is away, else to even. average: of int8 sums,
 * times this, / 2^32. after has stages of another task, without a third one, that the general
 * kernels run on what float32 the others give; or it is NULL. */
struct dpu {
    struct stage bs;
    struct stage bn;
    struct table table;
    struct features operand;
    double number;
    double operand_offset;
    double operand_scale;
    double product;
    double lowest;
    double highest;
    double factor;
    double addend;
    double scale;
    double offset;
    int64_t output_away;
    int64_t operand_away;
    int64_t is_integer;
    int64_t average;
    int64_t has_bs;
    int64_t has_bn;
    int64_t has_table;
    int64_t operation;
    int64_t has_operand;
    int64_t has_limits;
    int64_t element;
    const struct dpu *after;
    struct short_way short_way;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct dpu, bs) == 0, "dpu.bs");
_Static_assert(offsetof(struct dpu, bn) == 152, "dpu.bn");
_Static_assert(offsetof(struct dpu, table) == 304, "dpu.table");
_Static_assert(offsetof(struct dpu, operand) == 384, "dpu.operand");
_Static_assert(offsetof(struct dpu, number) == 496, "dpu.number");
_Static_assert(offsetof(struct dpu, operand_offset) == 504, "dpu.operand_offset");
_Static_assert(offsetof(struct dpu, operand_scale) == 512, "dpu.operand_scale");
_Static_assert(offsetof(struct dpu, product) == 520, "dpu.product");
_Static_assert(offsetof(struct dpu, lowest) == 528, "dpu.lowest");
_Static_assert(offsetof(struct dpu, highest) == 536, "dpu.highest");
_Static_assert(offsetof(struct dpu, factor) == 544, "dpu.factor");
_Static_assert(offsetof(struct dpu, addend) == 552, "dpu.addend");
_Static_assert(offsetof(struct dpu, scale) == 560, "dpu.scale");
_Static_assert(offsetof(struct dpu, offset) == 568, "dpu.offset");
_Static_assert(offsetof(struct dpu, output_away) == 576, "dpu.output_away");
_Static_assert(offsetof(struct dpu, operand_away) == 584, "dpu.operand_away");
_Static_assert(offsetof(struct dpu, is_integer) == 592, "dpu.is_integer");
_Static_assert(offsetof(struct dpu, average) == 600, "dpu.average");
_Static_assert(offsetof(struct dpu, has_bs) == 608, "dpu.has_bs");
_Static_assert(offsetof(struct dpu, has_bn) == 616, "dpu.has_bn");
_Static_assert(offsetof(struct dpu, has_table) == 624, "dpu.has_table");
_Static_assert(offsetof(struct dpu, operation) == 632, "dpu.operation");
_Static_assert(offsetof(struct dpu, has_operand) == 640, "dpu.has_operand");
_Static_assert(offsetof(struct dpu, has_limits) == 648, "dpu.has_limits");
_Static_assert(offsetof(struct dpu, element) == 656, "dpu.element");
_Static_assert(offsetof(struct dpu, after) == 664, "dpu.after");
_Static_assert(offsetof(struct dpu, short_way) == 672, "dpu.short_way");
_Static_assert(sizeof(struct dpu) == 728, "dpu");
#endif

/* Where atoms go: group surfaces lie surface apart, groups of them group_stride.
 * Lanes past the last channel hold the padding. */
struct writer {
    uint8_t *base;
    int64_t line;
    int64_t pixel;
    int64_t surface;
    int64_t group;
    int64_t group_stride;
    int64_t width;
    int64_t channels;
    int64_t lanes;
    int64_t padding;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct writer, base) == 0, "writer.base");
_Static_assert(offsetof(struct writer, line) == 8, "writer.line");
_Static_assert(offsetof(struct writer, pixel) == 16, "writer.pixel");
_Static_assert(offsetof(struct writer, surface) == 24, "writer.surface");
_Static_assert(offsetof(struct writer, group) == 32, "writer.group");
_Static_assert(offsetof(struct writer, group_stride) == 40, "writer.group_stride");
_Static_assert(offsetof(struct writer, width) == 48, "writer.width");
_Static_assert(offsetof(struct writer, channels) == 56, "writer.channels");
_Static_assert(offsetof(struct writer, lanes) == 64, "writer.lanes");
_Static_assert(offsetof(struct writer, padding) == 72, "writer.padding");
_Static_assert(sizeof(struct writer) == 80, "writer");
#endif

/* A dense int8 convolution: rows of what each output pixel sees, times weights.
 * weights are (groups of COLUMNS kernels, depth / 4, COLUMNS, 4), with offsets, (groups,
 * COLUMNS), to be added to each weight of a kernel. rows are those of all output pixels, or NULL
 * where each thread gathers its own, tile at a time and stride values apart, of one byte or two
 * as the form has them; lanes past channels have no weights. is_packed: neighbours in a row of
 * the input lie side by side, with all their channels. is_pointwise: each pixel sees its own
 * atoms of LANES, which lie one after another in a surface. depth is the places of a kernel, a
 * multiple of 8. Sums lose truncate bits before the stages, and halves go up with truncate_up,
 * else to the even number. */
struct int8_dense {
    struct dpu dpu;
    struct writer writer;
    struct features features;
    struct window window;
    const int8_t *weights;
    const int16_t *offsets;
    int8_t *rows;
    int64_t channels;
    int64_t is_packed;
    int64_t is_pointwise;
    int64_t depth;
    int64_t stride;
    int64_t tile;
    int64_t pixels;
    int64_t truncate;
    int64_t truncate_up;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct int8_dense, dpu) == 0, "int8_dense.dpu");
_Static_assert(offsetof(struct int8_dense, writer) == 728, "int8_dense.writer");
_Static_assert(offsetof(struct int8_dense, features) == 808, "int8_dense.features");
_Static_assert(offsetof(struct int8_dense, window) == 920, "int8_dense.window");
_Static_assert(offsetof(struct int8_dense, weights) == 1024, "int8_dense.weights");
_Static_assert(offsetof(struct int8_dense, offsets) == 1032, "int8_dense.offsets");
_Static_assert(offsetof(struct int8_dense, rows) == 1040, "int8_dense.rows");
_Static_assert(offsetof(struct int8_dense, channels) == 1048, "int8_dense.channels");
_Static_assert(offsetof(struct int8_dense, is_packed) == 1056, "int8_dense.is_packed");
_Static_assert(offsetof(struct int8_dense, is_pointwise) == 1064, "int8_dense.is_pointwise");
_Static_assert(offsetof(struct int8_dense, depth) == 1072, "int8_dense.depth");
_Static_assert(offsetof(struct int8_dense, stride) == 1080, "int8_dense.stride");
_Static_assert(offsetof(struct int8_dense, tile) == 1088, "int8_dense.tile");
_Static_assert(offsetof(struct int8_dense, pixels) == 1096, "int8_dense.pixels");
_Static_assert(offsetof(struct int8_dense, truncate) == 1104, "int8_dense.truncate");
_Static_assert(offsetof(struct int8_dense, truncate_up) == 1112, "int8_dense.truncate_up");
_Static_assert(sizeof(struct int8_dense) == 1120, "int8_dense");
#endif

/* An int8 convolution channel by channel; weights are (surfaces, height, pairs, lanes, 2).
 * The input is laid out as pairs of neighbours, the dilation apart, in rows of columns pairs:
 * outputs are apart of these apart, pairs of the kernel pair, and its rows reach. band output
 * rows are computed at a time, so that their input stays cached. Sums are truncated as those of a
 * dense one. */
struct int8_depthwise {
    struct dpu dpu;
    struct writer writer;
    struct features features;
    struct window window;
    const int16_t *weights;
    int64_t pairs;
    int64_t columns;
    int64_t apart;
    int64_t pair;
    int64_t reach;
    int64_t band;
    int64_t truncate;
    int64_t truncate_up;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct int8_depthwise, dpu) == 0, "int8_depthwise.dpu");
_Static_assert(offsetof(struct int8_depthwise, writer) == 728, "int8_depthwise.writer");
_Static_assert(offsetof(struct int8_depthwise, features) == 808, "int8_depthwise.features");
_Static_assert(offsetof(struct int8_depthwise, window) == 920, "int8_depthwise.window");
_Static_assert(offsetof(struct int8_depthwise, weights) == 1024, "int8_depthwise.weights");
_Static_assert(offsetof(struct int8_depthwise, pairs) == 1032, "int8_depthwise.pairs");
_Static_assert(offsetof(struct int8_depthwise, columns) == 1040, "int8_depthwise.columns");
_Static_assert(offsetof(struct int8_depthwise, apart) == 1048, "int8_depthwise.apart");
_Static_assert(offsetof(struct int8_depthwise, pair) == 1056, "int8_depthwise.pair");
_Static_assert(offsetof(struct int8_depthwise, reach) == 1064, "int8_depthwise.reach");
_Static_assert(offsetof(struct int8_depthwise, band) == 1072, "int8_depthwise.band");
_Static_assert(offsetof(struct int8_depthwise, truncate) == 1080, "int8_depthwise.truncate");
_Static_assert(offsetof(struct int8_depthwise, truncate_up) == 1088, "int8_depthwise.truncate_up");
_Static_assert(sizeof(struct int8_depthwise) == 1096, "int8_depthwise");
#endif

/* int8 features through a function of one value: values of -128 to 127. */
struct remap {
    struct writer writer;
    struct features features;
    const int8_t *values;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct remap, writer) == 0, "remap.writer");
_Static_assert(offsetof(struct remap, features) == 80, "remap.features");
_Static_assert(offsetof(struct remap, values) == 192, "remap.values");
_Static_assert(sizeof(struct remap) == 200, "remap");
#endif

/* The greatest int8 value of each window, or with the sign -1 the least. */
struct pool {
    struct writer writer;
    struct features features;
    struct window window;
    int64_t sign;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct pool, writer) == 0, "pool.writer");
_Static_assert(offsetof(struct pool, features) == 80, "pool.features");
_Static_assert(offsetof(struct pool, window) == 192, "pool.window");
_Static_assert(offsetof(struct pool, sign) == 296, "pool.sign");
_Static_assert(sizeof(struct pool) == 304, "pool");
#endif

/* Atoms of 8 or 16 bytes to other places; strides of surfaces, rows and pixels. */
struct move {
    const uint8_t *source;
    uint8_t *target;
    int64_t rows;
    int64_t pixels;
    int64_t source_strides[3];
    int64_t target_strides[3];
    int64_t atom;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct move, source) == 0, "move.source");
_Static_assert(offsetof(struct move, target) == 8, "move.target");
_Static_assert(offsetof(struct move, rows) == 16, "move.rows");
_Static_assert(offsetof(struct move, pixels) == 24, "move.pixels");
_Static_assert(offsetof(struct move, source_strides) == 32, "move.source_strides");
_Static_assert(offsetof(struct move, target_strides) == 56, "move.target_strides");
_Static_assert(offsetof(struct move, atom) == 80, "move.atom");
_Static_assert(sizeof(struct move) == 88, "move");
#endif

/* A convolution as rows times weights.
 * Where there are few pixels, rows are gathered by a step of their own and units are groups of
 * kernels, of tile pixels each; otherwise units are pixels, whose rows are gathered tile at a
 * time. Or units are output rows, tile at a time, and rows those of the padded input, with
 * columns pixels. Sums of together pixels are kept. depth is from row to row. fused: products are
 * exact. Integer sums are multiplied by truncate before the stages, and halves go up with
 * truncate_up, else to the even number. */
struct dense {
    struct dpu dpu;
    struct writer writer;
    struct features features;
    struct window window;
    struct weights weights;
    float *rows;
    int64_t tile;
    int64_t together;
    int64_t depth;
    int64_t columns;
    int64_t fused;
    double truncate;
    int64_t truncate_up;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct dense, dpu) == 0, "dense.dpu");
_Static_assert(offsetof(struct dense, writer) == 728, "dense.writer");
_Static_assert(offsetof(struct dense, features) == 808, "dense.features");
_Static_assert(offsetof(struct dense, window) == 920, "dense.window");
_Static_assert(offsetof(struct dense, weights) == 1024, "dense.weights");
_Static_assert(offsetof(struct dense, rows) == 1088, "dense.rows");
_Static_assert(offsetof(struct dense, tile) == 1096, "dense.tile");
_Static_assert(offsetof(struct dense, together) == 1104, "dense.together");
_Static_assert(offsetof(struct dense, depth) == 1112, "dense.depth");
_Static_assert(offsetof(struct dense, columns) == 1120, "dense.columns");
_Static_assert(offsetof(struct dense, fused) == 1128, "dense.fused");
_Static_assert(offsetof(struct dense, truncate) == 1136, "dense.truncate");
_Static_assert(offsetof(struct dense, truncate_up) == 1144, "dense.truncate_up");
_Static_assert(sizeof(struct dense) == 1152, "dense");
#endif

/* Depthwise products, or without weights a pooling by its method.
 * Units are output rows of all groups with by_rows, else groups. fused and truncate as those of a
 * dense one. */
struct depthwise {
    struct dpu dpu;
    struct writer writer;
    struct features features;
    struct window window;
    struct weights weights;
    int64_t method;
    int64_t fused;
    int64_t by_rows;
    double truncate;
    int64_t truncate_up;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct depthwise, dpu) == 0, "depthwise.dpu");
_Static_assert(offsetof(struct depthwise, writer) == 728, "depthwise.writer");
_Static_assert(offsetof(struct depthwise, features) == 808, "depthwise.features");
_Static_assert(offsetof(struct depthwise, window) == 920, "depthwise.window");
_Static_assert(offsetof(struct depthwise, weights) == 1024, "depthwise.weights");
_Static_assert(offsetof(struct depthwise, method) == 1088, "depthwise.method");
_Static_assert(offsetof(struct depthwise, fused) == 1096, "depthwise.fused");
_Static_assert(offsetof(struct depthwise, by_rows) == 1104, "depthwise.by_rows");
_Static_assert(offsetof(struct depthwise, truncate) == 1112, "depthwise.truncate");
_Static_assert(offsetof(struct depthwise, truncate_up) == 1120, "depthwise.truncate_up");
_Static_assert(sizeof(struct depthwise) == 1128, "depthwise");
#endif

/* Features through the stages.
 * Units of the general kernel are groups with by_groups, else pixels; those of int8 surfaces. */
struct process {
    struct dpu dpu;
    struct writer writer;
    struct features features;
    int64_t by_groups;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct process, dpu) == 0, "process.dpu");
_Static_assert(offsetof(struct process, writer) == 728, "process.writer");
_Static_assert(offsetof(struct process, features) == 808, "process.features");
_Static_assert(offsetof(struct process, by_groups) == 920, "process.by_groups");
_Static_assert(sizeof(struct process) == 928, "process");
#endif

/* The greatest, or with the sign -1 the least channel of each pixel, as float16 side by side.
 * filled elements are written, the last ones like that of the last pixel. */
struct reduction {
    struct dpu dpu;
    struct features features;
    int64_t sign;
    uint8_t *target;
    int64_t pixels;
    int64_t filled;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct reduction, dpu) == 0, "reduction.dpu");
_Static_assert(offsetof(struct reduction, features) == 728, "reduction.features");
_Static_assert(offsetof(struct reduction, sign) == 840, "reduction.sign");
_Static_assert(offsetof(struct reduction, target) == 848, "reduction.target");
_Static_assert(offsetof(struct reduction, pixels) == 856, "reduction.pixels");
_Static_assert(offsetof(struct reduction, filled) == 864, "reduction.filled");
_Static_assert(sizeof(struct reduction) == 872, "reduction");
#endif

/* A way through memory: the last axis is the fastest; strides may be negative. */
struct way {
    uint8_t *base;
    int64_t counts[5];
    int64_t strides[5];
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct way, base) == 0, "way.base");
_Static_assert(offsetof(struct way, counts) == 8, "way.counts");
_Static_assert(offsetof(struct way, strides) == 48, "way.strides");
_Static_assert(sizeof(struct way) == 88, "way");
#endif

/* Units of size bytes from one way to the other, from a number on in each.
 * With a mask, units are words of 8 bytes, and of each the bits stay that the mask's words have. */
struct copy {
    struct way source;
    struct way target;
    int64_t size;
    int64_t source_first;
    int64_t target_first;
    const uint64_t *mask;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct copy, source) == 0, "copy.source");
_Static_assert(offsetof(struct copy, target) == 88, "copy.target");
_Static_assert(offsetof(struct copy, size) == 176, "copy.size");
_Static_assert(offsetof(struct copy, source_first) == 184, "copy.source_first");
_Static_assert(offsetof(struct copy, target_first) == 192, "copy.target_first");
_Static_assert(offsetof(struct copy, mask) == 200, "copy.mask");
_Static_assert(sizeof(struct copy) == 208, "copy");
#endif

/* Blocks of as many atoms, lanes turned into pixels, with zeros for what is missing.
 * Units are blocks of atoms, at most sixteen, whose target is the first: atoms lie lane apart,
 * every eight of them line. size is that of an element; 16 leaves atoms as they are. */
struct transposition {
    struct way source;
    int64_t pixels;
    int64_t atoms;
    struct way target;
    int64_t lane;
    int64_t line;
    int64_t size;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct transposition, source) == 0, "transposition.source");
_Static_assert(offsetof(struct transposition, pixels) == 88, "transposition.pixels");
_Static_assert(offsetof(struct transposition, atoms) == 96, "transposition.atoms");
_Static_assert(offsetof(struct transposition, target) == 104, "transposition.target");
_Static_assert(offsetof(struct transposition, lane) == 192, "transposition.lane");
_Static_assert(offsetof(struct transposition, line) == 200, "transposition.line");
_Static_assert(offsetof(struct transposition, size) == 208, "transposition.size");
_Static_assert(sizeof(struct transposition) == 216, "transposition");
#endif

#endif
