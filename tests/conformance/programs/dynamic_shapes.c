/* A model with several input shapes: each in turn, by both ways in and out.
 *
 *     dynamic_shapes MODEL OUTPUT
 *
 * The picture of every shape holds the numbers 0, 1, 2 ... 255, 0 ...; OUTPUT gets the float32
 * results of all shapes one after the other.
 */
#include "program.h"

static rknn_context context;
static FILE *output;

static rknn_tensor_attr choose_shape(const rknn_input_range *range, uint32_t number) {
    rknn_tensor_attr attr = {.index = 0, .fmt = range->fmt, .n_dims = range->n_dims};
    memcpy(attr.dims, range->dyn_range[number], sizeof attr.dims);
    memcpy(attr.name, range->name, sizeof attr.name);
    REQUIRE(rknn_set_input_shapes(context, 1, &attr) == RKNN_SUCC);
    attr = query_attribute(context, RKNN_QUERY_CURRENT_INPUT_ATTR, 0);
    print_attribute("input", &attr);
    REQUIRE(!memcmp(attr.dims, range->dyn_range[number], range->n_dims * sizeof(uint32_t)));
    return attr;
}

static void fill(uint8_t *target, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        target[i] = (uint8_t)i;
}

static float *run_general(const rknn_tensor_attr *attr, uint32_t elements) {
    uint8_t *picture = malloc(attr->n_elems);
    float *values = malloc(elements * sizeof(float));
    REQUIRE(picture && values);
    fill(picture, attr->n_elems);
    rknn_input input = {.buf = picture, .size = attr->n_elems, .type = RKNN_TENSOR_UINT8};
    input.fmt = RKNN_TENSOR_NHWC;
    REQUIRE(rknn_inputs_set(context, 1, &input) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    rknn_output result = {.want_float = 1, .is_prealloc = 1, .buf = values};
    result.size = elements * (uint32_t)sizeof(float);
    REQUIRE(rknn_outputs_get(context, 1, &result, NULL) == RKNN_SUCC);
    REQUIRE(rknn_outputs_release(context, 1, &result) == RKNN_SUCC);
    free(picture);
    return values;
}

static void run_zero_copy(const float *expected, uint32_t elements) {
    rknn_tensor_attr in = query_attribute(context, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, 0);
    rknn_tensor_attr out = query_attribute(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, 0);
    in.type = RKNN_TENSOR_UINT8;
    out.type = RKNN_TENSOR_FLOAT32;
    rknn_tensor_mem *picture = rknn_create_mem(context, in.size_with_stride);
    rknn_tensor_mem *result = rknn_create_mem(context, elements * (uint32_t)sizeof(float));
    REQUIRE(picture && result);
    REQUIRE(in.w_stride == 0 || in.w_stride == in.dims[2]);
    fill(picture->virt_addr, in.n_elems);
    REQUIRE(rknn_set_io_mem(context, picture, &in) == RKNN_SUCC);
    REQUIRE(rknn_set_io_mem(context, result, &out) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    REQUIRE(!memcmp(result->virt_addr, expected, elements * sizeof(float)));
    REQUIRE(rknn_destroy_mem(context, picture) == RKNN_SUCC);
    REQUIRE(rknn_destroy_mem(context, result) == RKNN_SUCC);
}

int main(int count, char **arguments) {
    REQUIRE(count == 3 && (output = fopen(arguments[2], "wb")));
    REQUIRE(rknn_init(&context, arguments[1], 0, 0, NULL) == RKNN_SUCC);
    rknn_input_range range = {.index = 0};
    REQUIRE(rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range) == RKNN_SUCC);
    printf("%s has %u shapes\n", range.name, range.shape_number);
    /* Backwards too, since the first shape is the one that a context begins with. */
    for (uint32_t i = 0; i < range.shape_number; i++) {
        rknn_tensor_attr attr = choose_shape(&range, range.shape_number - 1 - i);
        rknn_tensor_attr out = query_attribute(context, RKNN_QUERY_CURRENT_OUTPUT_ATTR, 0);
        print_attribute("output", &out);
        float *values = run_general(&attr, out.n_elems);
        run_zero_copy(values, out.n_elems);
        REQUIRE(fwrite(values, sizeof(float), out.n_elems, output) == out.n_elems);
        free(values);
    }
    REQUIRE(rknn_destroy(context) == RKNN_SUCC && !fclose(output));
    return 0;
}
