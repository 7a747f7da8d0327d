/* What kernels.c and matmul.c share with Python; written by python -m anynpu.native.header. */

#ifndef ANYNPU_ARRAYS_H
#define ANYNPU_ARRAYS_H

#include <stddef.h>
#include <stdint.h>

enum {
    LARGEST_BLOCK = 32,
    MOST_LANES = 1024,
};

enum {
    UINT8_TO_UINT8 = 0,
    UINT16_TO_UINT16 = 1,
    UINT32_TO_UINT32 = 2,
    INT8_TO_FLOAT32 = 3,
    UINT8_TO_FLOAT32 = 4,
    INT16_TO_FLOAT32 = 5,
    UINT16_TO_FLOAT32 = 6,
    FLOAT16_TO_FLOAT32 = 7,
    FLOAT32_TO_INT8 = 8,
    FLOAT32_TO_UINT8 = 9,
    FLOAT32_TO_INT16 = 10,
    FLOAT32_TO_UINT16 = 11,
    FLOAT32_TO_FLOAT16 = 12,
};

/* What lies in memory: elements in the array's order, channel blocks, or pixels of planes. */
enum transfer_kind {
    AS_ELEMENTS = 0,
    AS_BLOCKS = 1,
    AS_PIXELS = 2,
};

/* What becomes of an array: planes become pixels, or floats are brought into low..high. */
enum arrangement_kind {
    AS_IT_IS = 0,
    INTERLEAVED = 1,
    LIMITED = 2,
};

/* What pixels are made of. */
enum pixel_source {
    FLOATS = 0,
    HALVES = 1,
    BYTES = 2,
};

/* What they become. */
enum pixel_target {
    REALS = 0,
    INTEGERS = 1,
};

/* What cells are made of. */
enum cell_element {
    INT8_CELLS = 0,
    UINT8_CELLS = 1,
    INT16_CELLS = 2,
    UINT16_CELLS = 3,
};

/* A quantisation, for a kernel. */
struct affine {
    float scale;
    float zero_point;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct affine, scale) == 0, "affine.scale");
_Static_assert(offsetof(struct affine, zero_point) == 4, "affine.zero_point");
_Static_assert(sizeof(struct affine) == 8, "affine");
#endif

/* One array of a request's: how it is converted, where it is, and how many elements it has.
 * how is the address of the Blocks or of the Image that a kind other than elements needs. */
struct transfer {
    uint64_t conversion;
    struct affine affine;
    uint64_t array;
    uint64_t count;
    uint64_t kind;
    uint64_t how;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct transfer, conversion) == 0, "transfer.conversion");
_Static_assert(offsetof(struct transfer, affine) == 8, "transfer.affine");
_Static_assert(offsetof(struct transfer, array) == 16, "transfer.array");
_Static_assert(offsetof(struct transfer, count) == 24, "transfer.count");
_Static_assert(offsetof(struct transfer, kind) == 32, "transfer.kind");
_Static_assert(offsetof(struct transfer, how) == 40, "transfer.how");
_Static_assert(sizeof(struct transfer) == 48, "transfer");
#endif

/* How a kernel unpacks or packs channel blocks: N, C, C1, H * W and C2.
 * Blocks lie surface pixels apart, H * W or more. */
struct blocks {
    uint64_t batch;
    uint64_t channels;
    uint64_t blocks;
    uint64_t pixels;
    uint64_t block;
    uint64_t surface;
    uint64_t conversion;
    struct affine affine;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct blocks, batch) == 0, "blocks.batch");
_Static_assert(offsetof(struct blocks, channels) == 8, "blocks.channels");
_Static_assert(offsetof(struct blocks, blocks) == 16, "blocks.blocks");
_Static_assert(offsetof(struct blocks, pixels) == 24, "blocks.pixels");
_Static_assert(offsetof(struct blocks, block) == 32, "blocks.block");
_Static_assert(offsetof(struct blocks, surface) == 40, "blocks.surface");
_Static_assert(offsetof(struct blocks, conversion) == 48, "blocks.conversion");
_Static_assert(offsetof(struct blocks, affine) == 56, "blocks.affine");
_Static_assert(sizeof(struct blocks) == 64, "blocks");
#endif

/* How a kernel turns planes into pixels, of size bytes: 1, 2, 4 or 8.
 * row is where the next row of pixels begins, in pixels. */
struct image {
    uint64_t batch;
    uint64_t channels;
    uint64_t height;
    uint64_t width;
    uint64_t row;
    uint64_t size;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct image, batch) == 0, "image.batch");
_Static_assert(offsetof(struct image, channels) == 8, "image.channels");
_Static_assert(offsetof(struct image, height) == 16, "image.height");
_Static_assert(offsetof(struct image, width) == 24, "image.width");
_Static_assert(offsetof(struct image, row) == 32, "image.row");
_Static_assert(offsetof(struct image, size) == 40, "image.size");
_Static_assert(sizeof(struct image) == 48, "image");
#endif

/* One array of a request's, and what is made of it where.
 * The owner keeps both arrays until the request is done. */
struct arrangement {
    uint64_t kind;
    uint64_t source;
    uint64_t target;
    struct image image;
    uint64_t count;
    float low;
    float high;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct arrangement, kind) == 0, "arrangement.kind");
_Static_assert(offsetof(struct arrangement, source) == 8, "arrangement.source");
_Static_assert(offsetof(struct arrangement, target) == 16, "arrangement.target");
_Static_assert(offsetof(struct arrangement, image) == 24, "arrangement.image");
_Static_assert(offsetof(struct arrangement, count) == 72, "arrangement.count");
_Static_assert(offsetof(struct arrangement, low) == 80, "arrangement.low");
_Static_assert(offsetof(struct arrangement, high) == 84, "arrangement.high");
_Static_assert(sizeof(struct arrangement) == 88, "arrangement");
#endif

/* How a kernel takes pixels in, (N, H, W, C) to (N, C, H, W).
 * row and image count pixels to the next row and sample. Numbers are normalised with two
 * constants a channel: x * first + second, or with divides (x - first) / second; bytes are looked
 * up in table, (channels, 256). */
struct pixels {
    uint64_t batch;
    uint64_t channels;
    uint64_t height;
    uint64_t width;
    uint64_t row;
    uint64_t image;
    uint64_t source;
    uint64_t target;
    uint64_t divides;
    const float *first;
    const float *second;
    const void *table;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct pixels, batch) == 0, "pixels.batch");
_Static_assert(offsetof(struct pixels, channels) == 8, "pixels.channels");
_Static_assert(offsetof(struct pixels, height) == 16, "pixels.height");
_Static_assert(offsetof(struct pixels, width) == 24, "pixels.width");
_Static_assert(offsetof(struct pixels, row) == 32, "pixels.row");
_Static_assert(offsetof(struct pixels, image) == 40, "pixels.image");
_Static_assert(offsetof(struct pixels, source) == 48, "pixels.source");
_Static_assert(offsetof(struct pixels, target) == 56, "pixels.target");
_Static_assert(offsetof(struct pixels, divides) == 64, "pixels.divides");
_Static_assert(offsetof(struct pixels, first) == 72, "pixels.first");
_Static_assert(offsetof(struct pixels, second) == 80, "pixels.second");
_Static_assert(offsetof(struct pixels, table) == 88, "pixels.table");
_Static_assert(sizeof(struct pixels) == 96, "pixels");
#endif

/* Which cells a kernel looks for: those with least in any of some channels.
 * Cells are (blocks, cells, lanes), channels first up to last. least is above the lowest value
 * that the element has. */
struct threshold {
    uint64_t cells;
    uint64_t lanes;
    uint64_t first;
    uint64_t last;
    uint64_t element;
    int64_t least;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct threshold, cells) == 0, "threshold.cells");
_Static_assert(offsetof(struct threshold, lanes) == 8, "threshold.lanes");
_Static_assert(offsetof(struct threshold, first) == 16, "threshold.first");
_Static_assert(offsetof(struct threshold, last) == 24, "threshold.last");
_Static_assert(offsetof(struct threshold, element) == 32, "threshold.element");
_Static_assert(offsetof(struct threshold, least) == 40, "threshold.least");
_Static_assert(sizeof(struct threshold) == 48, "threshold");
#endif

/* C (m, n) = A (m, k) times B, on some threads.
 * B lies in parts of segment rows, each (n / block_n, rows / block_k, block_n, block_k); or,
 * where block_k is 0, as (k, n). A lies as (k / a_block, m, a_block) and C as (n / c_block, m,
 * c_block), where these aren't 0. */
struct product {
    int64_t m;
    int64_t k;
    int64_t n;
    int64_t segment;
    int64_t block_n;
    int64_t block_k;
    int64_t threads;
    int64_t a_block;
    int64_t c_block;
};
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(offsetof(struct product, m) == 0, "product.m");
_Static_assert(offsetof(struct product, k) == 8, "product.k");
_Static_assert(offsetof(struct product, n) == 16, "product.n");
_Static_assert(offsetof(struct product, segment) == 24, "product.segment");
_Static_assert(offsetof(struct product, block_n) == 32, "product.block_n");
_Static_assert(offsetof(struct product, block_k) == 40, "product.block_k");
_Static_assert(offsetof(struct product, threads) == 48, "product.threads");
_Static_assert(offsetof(struct product, a_block) == 56, "product.a_block");
_Static_assert(offsetof(struct product, c_block) == 64, "product.c_block");
_Static_assert(sizeof(struct product) == 72, "product");
#endif

#endif
