/* Zero copy: a picture goes in as the camera gives it, results come out where C wants them.
 *
 *     zero_copy MODEL PICTURE OUTPUT
 *
 * PICTURE holds the uint8 NHWC bytes of the model's only input. Every output is bound to memory of
 * its own; OUTPUT gets the first one as float32 NCHW. The buffers are then bound in the device's
 * own layout, and the two results have to agree. Works with both runtimes, the small one
 * (-DSMALL_RUNTIME) knows the native layout alone.
 */
#include <math.h>

#include "program.h"

static rknn_context context;

/* Rows may be longer in memory than in the picture: w_stride. */
static void copy_rows(uint8_t *target, const uint8_t *source, const rknn_tensor_attr *attr) {
    size_t row = attr->dims[2] * attr->dims[3];
    size_t stride = attr->w_stride ? attr->w_stride * attr->dims[3] : row;
    for (uint32_t y = 0; y < attr->dims[1]; y++)
        memcpy(target + y * stride, source + y * row, row);
}

static rknn_tensor_mem *bind_picture(const char *path) {
    size_t size;
    uint8_t *picture = read_file(path, &size);
    rknn_tensor_attr attr = query_attribute(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    print_attribute("native input", &attr);
    REQUIRE(attr.fmt == RKNN_TENSOR_NHWC && size == attr.n_elems);
    attr.type = RKNN_TENSOR_UINT8;
    attr.pass_through = 0;
    rknn_tensor_mem *memory = rknn_create_mem(context, attr.size_with_stride);
    REQUIRE(memory && memory->virt_addr && memory->size >= attr.size_with_stride);
    copy_rows(memory->virt_addr, picture, &attr);
    REQUIRE(rknn_set_io_mem(context, memory, &attr) == RKNN_SUCC);
    REQUIRE(rknn_mem_sync(context, memory, RKNN_MEMORY_SYNC_TO_DEVICE) == RKNN_SUCC);
    free(picture);
    return memory;
}

/* The value of an element of a native tensor, by its channel and position. */
static float native_value(const rknn_tensor_mem *memory, const rknn_tensor_attr *attr, uint32_t c,
                          uint32_t y, uint32_t x) {
    uint32_t c2 = attr->dims[4];
    size_t plane = (size_t)attr->dims[2] * attr->dims[3];
    size_t offset = (c / c2 * plane + (size_t)y * attr->dims[3] + x) * c2 + c % c2;
    REQUIRE(attr->type == RKNN_TENSOR_INT8);
    return (((int8_t *)memory->virt_addr)[offset] - attr->zp) * attr->scale;
}

static rknn_tensor_mem *run_native(rknn_tensor_attr *native) {
    *native = query_attribute(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, 0);
    print_attribute("native output", native);
    REQUIRE(native->fmt == RKNN_TENSOR_NC1HWC2);
    rknn_tensor_mem *memory = rknn_create_mem(context, native->size_with_stride);
    REQUIRE(memory && rknn_set_io_mem(context, memory, native) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    REQUIRE(rknn_mem_sync(context, memory, RKNN_MEMORY_SYNC_FROM_DEVICE) == RKNN_SUCC);
    return memory;
}

/* The native output, rearranged into float32 NCHW here. */
static float *native_result(const rknn_tensor_attr *logical) {
    rknn_tensor_attr native;
    rknn_tensor_mem *memory = run_native(&native);
    float *values = malloc(logical->n_elems * sizeof(float));
    REQUIRE(values);
    const uint32_t *dims = logical->dims;
    for (uint32_t c = 0, i = 0; c < dims[1]; c++)
        for (uint32_t y = 0; y < dims[2]; y++)
            for (uint32_t x = 0; x < dims[3]; x++)
                values[i++] = native_value(memory, &native, c, y, x);
    REQUIRE(rknn_destroy_mem(context, memory) == RKNN_SUCC);
    return values;
}

#ifndef SMALL_RUNTIME
/* The runtime's own conversion has to agree with ours, but for the order in which it rounds. */
static void compare_with_float(const float *expected, rknn_tensor_attr attr) {
    attr.type = RKNN_TENSOR_FLOAT32;
    attr.fmt = RKNN_TENSOR_NCHW;
    rknn_tensor_mem *memory = rknn_create_mem(context, attr.n_elems * sizeof(float));
    REQUIRE(memory && rknn_set_io_mem(context, memory, &attr) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    REQUIRE(rknn_mem_sync(context, memory, RKNN_MEMORY_SYNC_FROM_DEVICE) == RKNN_SUCC);
    const float *found = memory->virt_addr;
    for (uint32_t i = 0; i < attr.n_elems; i++)
        REQUIRE(fabsf(found[i] - expected[i]) <= 1e-4f * attr.scale);
    REQUIRE(rknn_destroy_mem(context, memory) == RKNN_SUCC);
}
#endif

int main(int count, char **arguments) {
    REQUIRE(count == 4);
    REQUIRE(rknn_init(&context, arguments[1], 0, 0, NULL) == RKNN_SUCC);
    rknn_tensor_mem *picture = bind_picture(arguments[2]);
    rknn_tensor_attr logical = query_attribute(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    float *values = native_result(&logical);
#ifndef SMALL_RUNTIME
    compare_with_float(values, logical);
#endif
    write_file(arguments[3], values, logical.n_elems * sizeof(float));
    free(values);
    REQUIRE(rknn_destroy_mem(context, picture) == RKNN_SUCC);
    REQUIRE(rknn_destroy(context) == RKNN_SUCC);
    return 0;
}
