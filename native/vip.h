/* What the engine of .nb files shares with Python; written by python -m
 * anynpu.soft.engines.vip.header. */

#ifndef ANYNPU_VIP_H
#define ANYNPU_VIP_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERNELS = 4,
    PIXELS = 8,
    TILE = 16,
    QUAD = 4,
    LANES = 16,
    HALF_KERNELS = 8,
    HALF_ROWS = 6,
    AT_ONCE = 8,
    NOWHERE = -2147483648,
};

/* What becomes of a second operand: sums of 10 or of 16 significant bits, a product. */
enum addition {
    NOTHING = 0,
    SHORT_SUM = 1,
    LONG_SUM = 2,
    PRODUCT = 3,
};

/* What a stream processor's unit makes of its operands; three kinds ask a table. */
enum unit {
    UNIT_PRODUCT = 0,
    UNIT_LIMITED_PRODUCT = 1,
    UNIT_SUM = 2,
    UNIT_DIFFERENCE = 3,
    UNIT_SIZE = 4,
    UNIT_CHOICE = 5,
    UNIT_COPY = 6,
    UNIT_ENTRY = 7,
    UNIT_FRACTION = 8,
    UNIT_STEP = 9,
};

/* Where an operand comes from: entries of a queue are an element's, a row's, or every row's. */
enum origin {
    OF_NOTHING = 0,
    OF_NUMBER = 1,
    OF_INPUT = 2,
    OF_UNIT = 3,
    OF_EARLIER_ROW = 4,
    OF_QUEUE = 5,
    OF_QUEUE_BY_ROW = 6,
    OF_QUEUE_AGAIN = 7,
};

/* How values are stored. */
enum form_of_values {
    FORM_BYTES = 0,
    FORM_HALVES = 1,
    FORM_FLOATS = 2,
};

/* What a stream processor's table is of: the tangent is the unit's own. */
enum table_form {
    TABLE_ANY = 0,
    TABLE_ODD = 1,
    TABLE_TANGENT = 2,
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

/* 1,024 values over a sign, an exponent's exponent_bits low bits and a mantissa's top bits.
 * low and high are those of arguments that are too large, as stream/tables.py has them. */
struct stream_table {
    const float *values;
    int64_t form;
    int64_t is_signed;
    int64_t exponent_bits;
    double low;
    double high;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_table, values) == 0, "stream_table.values");
_Static_assert(offsetof(struct stream_table, form) == 8, "stream_table.form");
_Static_assert(offsetof(struct stream_table, is_signed) == 16, "stream_table.is_signed");
_Static_assert(offsetof(struct stream_table, exponent_bits) == 24, "stream_table.exponent_bits");
_Static_assert(offsetof(struct stream_table, low) == 32, "stream_table.low");
_Static_assert(offsetof(struct stream_table, high) == 40, "stream_table.high");
_Static_assert(sizeof(struct stream_table) == 48, "stream_table");
#endif

/* What a unit reads: of origin the numberth, or the number value.
 * Of an earlier row it is what the unit made back rows ago, at its place of the ring; the first
 * rows take what queue (0 or 1; -1 for none) held before, or else value. */
struct stream_operand {
    int64_t origin;
    int64_t number;
    double value;
    int64_t back;
    int64_t ring;
    int64_t queue;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_operand, origin) == 0, "stream_operand.origin");
_Static_assert(offsetof(struct stream_operand, number) == 8, "stream_operand.number");
_Static_assert(offsetof(struct stream_operand, value) == 16, "stream_operand.value");
_Static_assert(offsetof(struct stream_operand, back) == 24, "stream_operand.back");
_Static_assert(offsetof(struct stream_operand, ring) == 32, "stream_operand.ring");
_Static_assert(offsetof(struct stream_operand, queue) == 40, "stream_operand.queue");
_Static_assert(sizeof(struct stream_operand) == 48, "stream_operand");
#endif

/* A unit's work; initial is its result where a queue that is empty would give an operand.
 * ring is its place among those whose results later rows read, -1 for others. */
struct stream_node {
    int64_t unit;
    struct stream_operand a;
    struct stream_operand b;
    struct stream_operand c;
    const struct stream_table *table;
    double initial;
    int64_t ring;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_node, unit) == 0, "stream_node.unit");
_Static_assert(offsetof(struct stream_node, a) == 8, "stream_node.a");
_Static_assert(offsetof(struct stream_node, b) == 56, "stream_node.b");
_Static_assert(offsetof(struct stream_node, c) == 104, "stream_node.c");
_Static_assert(offsetof(struct stream_node, table) == 152, "stream_node.table");
_Static_assert(offsetof(struct stream_node, initial) == 160, "stream_node.initial");
_Static_assert(offsetof(struct stream_node, ring) == 168, "stream_node.ring");
_Static_assert(sizeof(struct stream_node) == 176, "stream_node");
#endif

/* What is made of an element, each node after those whose results it reads.
 * low and high limit products; whole numbers get zero_point, halves of them go away from zero
 * with halves_go_away, else to even numbers. */
struct stream_program {
    const struct stream_node *nodes;
    int64_t count;
    double low;
    double high;
    struct stream_operand output;
    int64_t zero_point;
    int64_t halves_go_away;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_program, nodes) == 0, "stream_program.nodes");
_Static_assert(offsetof(struct stream_program, count) == 8, "stream_program.count");
_Static_assert(offsetof(struct stream_program, low) == 16, "stream_program.low");
_Static_assert(offsetof(struct stream_program, high) == 24, "stream_program.high");
_Static_assert(offsetof(struct stream_program, output) == 32, "stream_program.output");
_Static_assert(offsetof(struct stream_program, zero_point) == 80, "stream_program.zero_point");
_Static_assert(offsetof(struct stream_program, halves_go_away) == 88,
               "stream_program.halves_go_away");
_Static_assert(sizeof(struct stream_program) == 96, "stream_program");
#endif

/* Values as they are stored; bytes are changed by flip first, then addend is added. */
struct stream_input {
    struct planes planes;
    int64_t form;
    int64_t flip;
    int64_t addend;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_input, planes) == 0, "stream_input.planes");
_Static_assert(offsetof(struct stream_input, form) == 56, "stream_input.form");
_Static_assert(offsetof(struct stream_input, flip) == 64, "stream_input.flip");
_Static_assert(offsetof(struct stream_input, addend) == 72, "stream_input.addend");
_Static_assert(sizeof(struct stream_input) == 80, "stream_input");
#endif

/* A queue around a program: what it held, NULL for nothing, and where what is new goes.
 * written takes the values of writer, sums a sum or maximum of each row's values of summand. */
struct stream_queue {
    const float *held;
    float *written;
    struct stream_operand writer;
    float *sums;
    struct stream_operand summand;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream_queue, held) == 0, "stream_queue.held");
_Static_assert(offsetof(struct stream_queue, written) == 8, "stream_queue.written");
_Static_assert(offsetof(struct stream_queue, writer) == 16, "stream_queue.writer");
_Static_assert(offsetof(struct stream_queue, sums) == 64, "stream_queue.sums");
_Static_assert(offsetof(struct stream_queue, summand) == 72, "stream_queue.summand");
_Static_assert(sizeof(struct stream_queue) == 120, "stream_queue");
#endif

/* A stream processor's operation: a program for each element of rows rows.
 * A row is lines lines of width elements; a channel has height lines. Every stride-th line and
 * pixel is stored. ring_rows rows of rings units' results are kept, 0 where none is read later;
 * then there is one unit of work, otherwise a row is one. block elements are computed at a time. */
struct stream {
    const struct stream_program *program;
    int64_t rows;
    int64_t lines;
    int64_t height;
    int64_t width;
    int64_t inputs;
    struct stream_input first;
    struct stream_input second;
    struct planes target;
    int64_t form;
    int64_t stride;
    struct stream_queue queue_0;
    struct stream_queue queue_1;
    int64_t has_maxima;
    int64_t ring_rows;
    int64_t rings;
    int64_t block;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct stream, program) == 0, "stream.program");
_Static_assert(offsetof(struct stream, rows) == 8, "stream.rows");
_Static_assert(offsetof(struct stream, lines) == 16, "stream.lines");
_Static_assert(offsetof(struct stream, height) == 24, "stream.height");
_Static_assert(offsetof(struct stream, width) == 32, "stream.width");
_Static_assert(offsetof(struct stream, inputs) == 40, "stream.inputs");
_Static_assert(offsetof(struct stream, first) == 48, "stream.first");
_Static_assert(offsetof(struct stream, second) == 128, "stream.second");
_Static_assert(offsetof(struct stream, target) == 208, "stream.target");
_Static_assert(offsetof(struct stream, form) == 264, "stream.form");
_Static_assert(offsetof(struct stream, stride) == 272, "stream.stride");
_Static_assert(offsetof(struct stream, queue_0) == 280, "stream.queue_0");
_Static_assert(offsetof(struct stream, queue_1) == 400, "stream.queue_1");
_Static_assert(offsetof(struct stream, has_maxima) == 520, "stream.has_maxima");
_Static_assert(offsetof(struct stream, ring_rows) == 528, "stream.ring_rows");
_Static_assert(offsetof(struct stream, rings) == 536, "stream.rings");
_Static_assert(offsetof(struct stream, block) == 544, "stream.block");
_Static_assert(sizeof(struct stream) == 552, "stream");
#endif

/* 1,024 entries of a function by sign, exponent and the mantissa's top bits, linear in between.
 * Arguments of one sign have exponents powers of two, the upper half of them first. middle is the
 * value at zero; positive, negative and zero are the slopes at the ends and there. */
struct value_table {
    const double *values;
    int64_t is_signed;
    int64_t exponents;
    double middle;
    double positive;
    double negative;
    double zero;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct value_table, values) == 0, "value_table.values");
_Static_assert(offsetof(struct value_table, is_signed) == 8, "value_table.is_signed");
_Static_assert(offsetof(struct value_table, exponents) == 16, "value_table.exponents");
_Static_assert(offsetof(struct value_table, middle) == 24, "value_table.middle");
_Static_assert(offsetof(struct value_table, positive) == 32, "value_table.positive");
_Static_assert(offsetof(struct value_table, negative) == 40, "value_table.negative");
_Static_assert(offsetof(struct value_table, zero) == 48, "value_table.zero");
_Static_assert(sizeof(struct value_table) == 56, "value_table");
#endif

/* Sums of products, and what makes bytes of them.
 * border is less 128; flip is what bytes are changed by first. The final image is the result's;
 * out is before a maximum of pool_size, 0 for none. weights of a dense kernel are quads of
 * channels' bytes less 128, which count from the kernel's weight_zero_points; those of a
 * depthwise one are as native/vip_depthwise.h says. quads_bias is the bias where quads are
 * multiplied by bytes without a sign. taps say where each pair of a dense kernel is in the packed
 * image. negative is NULL where negative sums are scaled as others. has_relu says that what was
 * negative is zero, whatever low is. fits_float says that sums scaled in float32 give the same
 * bytes, least to most. operands are what each byte of the second operand adds or multiplies.
 * Scaled sums go through table, NULL for none, before low and high; program, NULL for none, makes
 * bytes of sums instead of all that. There are a bias and scales for whole LANES of channels. A
 * unit of work is rows of the final image for kernel_blocks blocks of KERNELS kernels, or as many
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
    int64_t has_relu;
    int64_t fits_float;
    int64_t least;
    int64_t most;
    int64_t addition;
    const float *operands;
    double constant;
    int64_t zero_point;
    int64_t output_flip;
    int64_t shuffled_rows;
    int64_t shuffled_pixels;
    int64_t rows;
    int64_t row_blocks;
    int64_t kernel_blocks;
    int64_t packed_rows;
    int64_t packed_width;
    const struct value_table *table;
    const struct stream_program *program;
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
_Static_assert(offsetof(struct convolution, has_relu) == 408, "convolution.has_relu");
_Static_assert(offsetof(struct convolution, fits_float) == 416, "convolution.fits_float");
_Static_assert(offsetof(struct convolution, least) == 424, "convolution.least");
_Static_assert(offsetof(struct convolution, most) == 432, "convolution.most");
_Static_assert(offsetof(struct convolution, addition) == 440, "convolution.addition");
_Static_assert(offsetof(struct convolution, operands) == 448, "convolution.operands");
_Static_assert(offsetof(struct convolution, constant) == 456, "convolution.constant");
_Static_assert(offsetof(struct convolution, zero_point) == 464, "convolution.zero_point");
_Static_assert(offsetof(struct convolution, output_flip) == 472, "convolution.output_flip");
_Static_assert(offsetof(struct convolution, shuffled_rows) == 480, "convolution.shuffled_rows");
_Static_assert(offsetof(struct convolution, shuffled_pixels) == 488, "convolution.shuffled_pixels");
_Static_assert(offsetof(struct convolution, rows) == 496, "convolution.rows");
_Static_assert(offsetof(struct convolution, row_blocks) == 504, "convolution.row_blocks");
_Static_assert(offsetof(struct convolution, kernel_blocks) == 512, "convolution.kernel_blocks");
_Static_assert(offsetof(struct convolution, packed_rows) == 520, "convolution.packed_rows");
_Static_assert(offsetof(struct convolution, packed_width) == 528, "convolution.packed_width");
_Static_assert(offsetof(struct convolution, table) == 536, "convolution.table");
_Static_assert(offsetof(struct convolution, program) == 544, "convolution.program");
_Static_assert(sizeof(struct convolution) == 552, "convolution");
#endif

/* A convolution of some kernels, and the first of all parts' units of work that is its own. */
struct convolution_part {
    const struct convolution *convolution;
    int64_t first;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct convolution_part, convolution) == 0, "convolution_part.convolution");
_Static_assert(offsetof(struct convolution_part, first) == 8, "convolution_part.first");
_Static_assert(sizeof(struct convolution_part) == 16, "convolution_part");
#endif

/* count convolutions, and units of work of all of them together. */
struct convolution_parts {
    const struct convolution_part *parts;
    int64_t count;
    int64_t units;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct convolution_parts, parts) == 0, "convolution_parts.parts");
_Static_assert(offsetof(struct convolution_parts, count) == 8, "convolution_parts.count");
_Static_assert(offsetof(struct convolution_parts, units) == 16, "convolution_parts.units");
_Static_assert(sizeof(struct convolution_parts) == 24, "convolution_parts");
#endif

/* A byte of a space for each value: value i's is blocks[i / size] + inside[i % size].
 * There is none where inside is NOWHERE. Of each run of them, 1 if there are no longer ones, one
 * is step behind the other. With a turn, places from end on are as many bytes less; inside is
 * least to most. */
struct places {
    const int32_t *blocks;
    const int32_t *inside;
    int64_t size;
    int64_t run;
    int64_t step;
    int64_t least;
    int64_t most;
    int64_t end;
    int64_t turn;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct places, blocks) == 0, "places.blocks");
_Static_assert(offsetof(struct places, inside) == 8, "places.inside");
_Static_assert(offsetof(struct places, size) == 16, "places.size");
_Static_assert(offsetof(struct places, run) == 24, "places.run");
_Static_assert(offsetof(struct places, step) == 32, "places.step");
_Static_assert(offsetof(struct places, least) == 40, "places.least");
_Static_assert(offsetof(struct places, most) == 48, "places.most");
_Static_assert(offsetof(struct places, end) == 56, "places.end");
_Static_assert(offsetof(struct places, turn) == 64, "places.turn");
_Static_assert(sizeof(struct places) == 72, "places");
#endif

/* Bytes from places to places, through a table of 256 if there is one.
 * A source's place that is none gives border, which has no table. item bytes lie at each place, 1
 * with a table; unit places are a unit of work. */
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
_Static_assert(offsetof(struct move, places) == 88, "move.places");
_Static_assert(offsetof(struct move, table) == 160, "move.table");
_Static_assert(offsetof(struct move, border) == 168, "move.border");
_Static_assert(offsetof(struct move, item) == 176, "move.item");
_Static_assert(offsetof(struct move, count) == 184, "move.count");
_Static_assert(offsetof(struct move, unit) == 192, "move.unit");
_Static_assert(sizeof(struct move) == 200, "move");
#endif

/* Windows of a float16 image as rows; what lies beyond the image is zero.
 * plane and row are bytes of a channel and of its rows, whose pixels lie side by side. Windows of
 * kernel_height and kernel_width are step_y and step_x apart, columns beside each other, the
 * first one beginning top and left before the image. target_row bytes lie from one of the count
 * rows to the next, unit rows are a unit of work. */
struct half_windows {
    const uint8_t *source;
    int64_t plane;
    int64_t row;
    int64_t channels;
    int64_t height;
    int64_t width;
    int64_t kernel_height;
    int64_t kernel_width;
    int64_t step_y;
    int64_t step_x;
    int64_t top;
    int64_t left;
    int64_t columns;
    uint8_t *target;
    int64_t target_row;
    int64_t count;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct half_windows, source) == 0, "half_windows.source");
_Static_assert(offsetof(struct half_windows, plane) == 8, "half_windows.plane");
_Static_assert(offsetof(struct half_windows, row) == 16, "half_windows.row");
_Static_assert(offsetof(struct half_windows, channels) == 24, "half_windows.channels");
_Static_assert(offsetof(struct half_windows, height) == 32, "half_windows.height");
_Static_assert(offsetof(struct half_windows, width) == 40, "half_windows.width");
_Static_assert(offsetof(struct half_windows, kernel_height) == 48, "half_windows.kernel_height");
_Static_assert(offsetof(struct half_windows, kernel_width) == 56, "half_windows.kernel_width");
_Static_assert(offsetof(struct half_windows, step_y) == 64, "half_windows.step_y");
_Static_assert(offsetof(struct half_windows, step_x) == 72, "half_windows.step_x");
_Static_assert(offsetof(struct half_windows, top) == 80, "half_windows.top");
_Static_assert(offsetof(struct half_windows, left) == 88, "half_windows.left");
_Static_assert(offsetof(struct half_windows, columns) == 96, "half_windows.columns");
_Static_assert(offsetof(struct half_windows, target) == 104, "half_windows.target");
_Static_assert(offsetof(struct half_windows, target_row) == 112, "half_windows.target_row");
_Static_assert(offsetof(struct half_windows, count) == 120, "half_windows.count");
_Static_assert(offsetof(struct half_windows, unit) == 128, "half_windows.unit");
_Static_assert(sizeof(struct half_windows) == 136, "half_windows");
#endif

/* Products of count float16 rows of length and as many kernels' values, with a bias.
 * weights are (blocks of 8 kernels, values up to a multiple of 8, 8), of normal numbers; there
 * are a bias and weights for whole blocks. together sums of 8 products are summed before they are
 * added. Results, negative ones as zero with cuts, are by_kernel and by_row bytes apart. A unit
 * of work is some rows with blocks blocks of kernels. */
struct half_products {
    const uint8_t *source;
    int64_t source_row;
    int64_t count;
    int64_t length;
    const uint16_t *weights;
    const float *bias;
    int64_t kernels;
    int64_t together;
    int64_t cuts;
    uint8_t *target;
    int64_t by_kernel;
    int64_t by_row;
    int64_t blocks;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct half_products, source) == 0, "half_products.source");
_Static_assert(offsetof(struct half_products, source_row) == 8, "half_products.source_row");
_Static_assert(offsetof(struct half_products, count) == 16, "half_products.count");
_Static_assert(offsetof(struct half_products, length) == 24, "half_products.length");
_Static_assert(offsetof(struct half_products, weights) == 32, "half_products.weights");
_Static_assert(offsetof(struct half_products, bias) == 40, "half_products.bias");
_Static_assert(offsetof(struct half_products, kernels) == 48, "half_products.kernels");
_Static_assert(offsetof(struct half_products, together) == 56, "half_products.together");
_Static_assert(offsetof(struct half_products, cuts) == 64, "half_products.cuts");
_Static_assert(offsetof(struct half_products, target) == 72, "half_products.target");
_Static_assert(offsetof(struct half_products, by_kernel) == 80, "half_products.by_kernel");
_Static_assert(offsetof(struct half_products, by_row) == 88, "half_products.by_row");
_Static_assert(offsetof(struct half_products, blocks) == 96, "half_products.blocks");
_Static_assert(sizeof(struct half_products) == 104, "half_products");
#endif

/* Rows of an image: bytes from one plane, and from one row, to the next; 0 for one. */
struct lines {
    uint8_t *first;
    int64_t plane;
    int64_t row;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct lines, first) == 0, "lines.first");
_Static_assert(offsetof(struct lines, plane) == 8, "lines.plane");
_Static_assert(offsetof(struct lines, row) == 16, "lines.row");
_Static_assert(sizeof(struct lines) == 24, "lines");
#endif

/* Bytes of each of rows rows less a zero point, by the row's factor, and its constant.
 * factors and constants are float32 at any address. unit rows are a unit of work. */
struct row_factors {
    struct lines source;
    struct lines target;
    int64_t rows;
    int64_t pixels;
    int64_t zero_point;
    const uint8_t *factors;
    const uint8_t *constants;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct row_factors, source) == 0, "row_factors.source");
_Static_assert(offsetof(struct row_factors, target) == 24, "row_factors.target");
_Static_assert(offsetof(struct row_factors, rows) == 48, "row_factors.rows");
_Static_assert(offsetof(struct row_factors, pixels) == 56, "row_factors.pixels");
_Static_assert(offsetof(struct row_factors, zero_point) == 64, "row_factors.zero_point");
_Static_assert(offsetof(struct row_factors, factors) == 72, "row_factors.factors");
_Static_assert(offsetof(struct row_factors, constants) == 80, "row_factors.constants");
_Static_assert(offsetof(struct row_factors, unit) == 88, "row_factors.unit");
_Static_assert(sizeof(struct row_factors) == 96, "row_factors");
#endif

/* Products of two images' bytes, each less its zero point, but without that of both of these.
 * Then scale and constant. With other_is_one a line of the other image is one pixel. There are
 * count lines, rows of a plane, of which unit are a unit of work. */
struct byte_products {
    struct lines source;
    struct lines other;
    struct lines target;
    int64_t rows;
    int64_t count;
    int64_t pixels;
    int64_t zero_point;
    int64_t other_zero_point;
    int64_t other_is_one;
    double scale;
    double constant;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct byte_products, source) == 0, "byte_products.source");
_Static_assert(offsetof(struct byte_products, other) == 24, "byte_products.other");
_Static_assert(offsetof(struct byte_products, target) == 48, "byte_products.target");
_Static_assert(offsetof(struct byte_products, rows) == 72, "byte_products.rows");
_Static_assert(offsetof(struct byte_products, count) == 80, "byte_products.count");
_Static_assert(offsetof(struct byte_products, pixels) == 88, "byte_products.pixels");
_Static_assert(offsetof(struct byte_products, zero_point) == 96, "byte_products.zero_point");
_Static_assert(offsetof(struct byte_products, other_zero_point) == 104,
               "byte_products.other_zero_point");
_Static_assert(offsetof(struct byte_products, other_is_one) == 112, "byte_products.other_is_one");
_Static_assert(offsetof(struct byte_products, scale) == 120, "byte_products.scale");
_Static_assert(offsetof(struct byte_products, constant) == 128, "byte_products.constant");
_Static_assert(offsetof(struct byte_products, unit) == 136, "byte_products.unit");
_Static_assert(sizeof(struct byte_products) == 144, "byte_products");
#endif

/* Sums of bytes over windows side by side, by scale, and constant.
 * A line of the source is the first row of a line of windows of height rows, next_row bytes
 * apart, and width pixels; sums begin with addend. There are count lines of pixels windows, rows
 * of a plane, of which unit are a unit of work. */
struct window_sums {
    struct lines source;
    struct lines target;
    int64_t rows;
    int64_t count;
    int64_t pixels;
    int64_t height;
    int64_t width;
    int64_t next_row;
    int64_t addend;
    double scale;
    double constant;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct window_sums, source) == 0, "window_sums.source");
_Static_assert(offsetof(struct window_sums, target) == 24, "window_sums.target");
_Static_assert(offsetof(struct window_sums, rows) == 48, "window_sums.rows");
_Static_assert(offsetof(struct window_sums, count) == 56, "window_sums.count");
_Static_assert(offsetof(struct window_sums, pixels) == 64, "window_sums.pixels");
_Static_assert(offsetof(struct window_sums, height) == 72, "window_sums.height");
_Static_assert(offsetof(struct window_sums, width) == 80, "window_sums.width");
_Static_assert(offsetof(struct window_sums, next_row) == 88, "window_sums.next_row");
_Static_assert(offsetof(struct window_sums, addend) == 96, "window_sums.addend");
_Static_assert(offsetof(struct window_sums, scale) == 104, "window_sums.scale");
_Static_assert(offsetof(struct window_sums, constant) == 112, "window_sums.constant");
_Static_assert(offsetof(struct window_sums, unit) == 120, "window_sums.unit");
_Static_assert(sizeof(struct window_sums) == 128, "window_sums");
#endif

/* Bytes of a line less their mean over their deviation, by each pixel's scale, and its bias.
 * Then factor and constant. sum_beyond and squares_beyond are of what lies beyond a line's end,
 * part is one over the number of pixels. There are count lines, rows of a plane, of which unit
 * are a unit of work. */
struct layer_rows {
    struct lines source;
    struct lines target;
    int64_t rows;
    int64_t count;
    int64_t pixels;
    const float *scales;
    const float *bias;
    int64_t sum_beyond;
    int64_t squares_beyond;
    double part;
    double epsilon;
    double factor;
    double constant;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct layer_rows, source) == 0, "layer_rows.source");
_Static_assert(offsetof(struct layer_rows, target) == 24, "layer_rows.target");
_Static_assert(offsetof(struct layer_rows, rows) == 48, "layer_rows.rows");
_Static_assert(offsetof(struct layer_rows, count) == 56, "layer_rows.count");
_Static_assert(offsetof(struct layer_rows, pixels) == 64, "layer_rows.pixels");
_Static_assert(offsetof(struct layer_rows, scales) == 72, "layer_rows.scales");
_Static_assert(offsetof(struct layer_rows, bias) == 80, "layer_rows.bias");
_Static_assert(offsetof(struct layer_rows, sum_beyond) == 88, "layer_rows.sum_beyond");
_Static_assert(offsetof(struct layer_rows, squares_beyond) == 96, "layer_rows.squares_beyond");
_Static_assert(offsetof(struct layer_rows, part) == 104, "layer_rows.part");
_Static_assert(offsetof(struct layer_rows, epsilon) == 112, "layer_rows.epsilon");
_Static_assert(offsetof(struct layer_rows, factor) == 120, "layer_rows.factor");
_Static_assert(offsetof(struct layer_rows, constant) == 128, "layer_rows.constant");
_Static_assert(offsetof(struct layer_rows, unit) == 136, "layer_rows.unit");
_Static_assert(sizeof(struct layer_rows) == 144, "layer_rows");
#endif

/* Softmax over a line's bytes, to float16, or by factor and constant to bytes.
 * powers are of each difference to the greatest byte. There are count lines, rows of a plane, of
 * which unit are a unit of work. */
struct softmax_rows {
    struct lines source;
    struct lines target;
    int64_t rows;
    int64_t count;
    int64_t pixels;
    const float *powers;
    double factor;
    double constant;
    int64_t is_half;
    int64_t unit;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct softmax_rows, source) == 0, "softmax_rows.source");
_Static_assert(offsetof(struct softmax_rows, target) == 24, "softmax_rows.target");
_Static_assert(offsetof(struct softmax_rows, rows) == 48, "softmax_rows.rows");
_Static_assert(offsetof(struct softmax_rows, count) == 56, "softmax_rows.count");
_Static_assert(offsetof(struct softmax_rows, pixels) == 64, "softmax_rows.pixels");
_Static_assert(offsetof(struct softmax_rows, powers) == 72, "softmax_rows.powers");
_Static_assert(offsetof(struct softmax_rows, factor) == 80, "softmax_rows.factor");
_Static_assert(offsetof(struct softmax_rows, constant) == 88, "softmax_rows.constant");
_Static_assert(offsetof(struct softmax_rows, is_half) == 96, "softmax_rows.is_half");
_Static_assert(offsetof(struct softmax_rows, unit) == 104, "softmax_rows.unit");
_Static_assert(sizeof(struct softmax_rows) == 112, "softmax_rows");
#endif

/* Bytes of kernels in memory by an image's, each less its zero point.
 * A kernel's depth bytes are weight_step apart, kernels kernel_step. Sums by scale, within low
 * and high, get zero_point. */
struct matrix_product {
    const uint8_t *kernels;
    int64_t kernel_step;
    int64_t weight_step;
    struct planes source;
    struct planes target;
    int64_t depth;
    int64_t height;
    int64_t width;
    int64_t kernel_zero_point;
    int64_t input_zero_point;
    int64_t zero_point;
    double scale;
    double low;
    double high;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct matrix_product, kernels) == 0, "matrix_product.kernels");
_Static_assert(offsetof(struct matrix_product, kernel_step) == 8, "matrix_product.kernel_step");
_Static_assert(offsetof(struct matrix_product, weight_step) == 16, "matrix_product.weight_step");
_Static_assert(offsetof(struct matrix_product, source) == 24, "matrix_product.source");
_Static_assert(offsetof(struct matrix_product, target) == 80, "matrix_product.target");
_Static_assert(offsetof(struct matrix_product, depth) == 136, "matrix_product.depth");
_Static_assert(offsetof(struct matrix_product, height) == 144, "matrix_product.height");
_Static_assert(offsetof(struct matrix_product, width) == 152, "matrix_product.width");
_Static_assert(offsetof(struct matrix_product, kernel_zero_point) == 160,
               "matrix_product.kernel_zero_point");
_Static_assert(offsetof(struct matrix_product, input_zero_point) == 168,
               "matrix_product.input_zero_point");
_Static_assert(offsetof(struct matrix_product, zero_point) == 176, "matrix_product.zero_point");
_Static_assert(offsetof(struct matrix_product, scale) == 184, "matrix_product.scale");
_Static_assert(offsetof(struct matrix_product, low) == 192, "matrix_product.low");
_Static_assert(offsetof(struct matrix_product, high) == 200, "matrix_product.high");
_Static_assert(sizeof(struct matrix_product) == 208, "matrix_product");
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
 * kernel, of which block lie side by side; zero_points of each channel, which bytes of target
 * count from. With is_wide it has weights of 16 bits, the values as they are. */
struct core_values {
    int64_t superblocks;
    const int32_t *kernels;
    const int32_t *channels;
    int64_t weights;
    int64_t block;
    int64_t has_zero_points;
    int64_t is_wide;
    int32_t *zero_points;
    const int16_t *values;
    void *target;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct core_values, superblocks) == 0, "core_values.superblocks");
_Static_assert(offsetof(struct core_values, kernels) == 8, "core_values.kernels");
_Static_assert(offsetof(struct core_values, channels) == 16, "core_values.channels");
_Static_assert(offsetof(struct core_values, weights) == 24, "core_values.weights");
_Static_assert(offsetof(struct core_values, block) == 32, "core_values.block");
_Static_assert(offsetof(struct core_values, has_zero_points) == 40, "core_values.has_zero_points");
_Static_assert(offsetof(struct core_values, is_wide) == 48, "core_values.is_wide");
_Static_assert(offsetof(struct core_values, zero_points) == 56, "core_values.zero_points");
_Static_assert(offsetof(struct core_values, values) == 64, "core_values.values");
_Static_assert(offsetof(struct core_values, target) == 72, "core_values.target");
_Static_assert(sizeof(struct core_values) == 80, "core_values");
#endif

#endif
