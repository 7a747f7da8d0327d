/* Two custom operators in a program of C: one with state, one that leaves its node to the runtime.
 *
 *     custom_op MODEL INPUT OUTPUT
 *
 * MODEL has nodes of the types cstScale, with the attribute factor, and Abs. INPUT holds float32
 * NHWC values of its input; OUTPUT gets float32 values of its first output.
 */
#include "program.h"

typedef struct {
    float factor;
    int runs;
} scale_state;

static int scale_init(rknn_custom_op_context *context, rknn_custom_op_tensor *inputs,
                      uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs) {
    rknn_custom_op_attr factor, name;
    rknn_custom_op_get_op_attr(context, "factor", &factor);
    rknn_custom_op_get_op_attr(context, "name", &name);
    REQUIRE(factor.n_elems == 1 && factor.dtype == RKNN_TENSOR_FLOAT32);
    REQUIRE(n_inputs == 1 && n_outputs == 1 && inputs->attr.size == outputs->attr.size);
    scale_state *state = calloc(1, sizeof *state);
    REQUIRE(state);
    state->factor = *(const float *)factor.data;
    context->priv_data = state;
    printf("init %s factor %g\n", (const char *)name.data, state->factor);
    return 0;
}

static int scale_compute(rknn_custom_op_context *context, rknn_custom_op_tensor *inputs,
                         uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs) {
    scale_state *state = context->priv_data;
    const float *x = (const float *)((char *)inputs->mem.virt_addr + inputs->mem.offset);
    float *y = (float *)((char *)outputs->mem.virt_addr + outputs->mem.offset);
    REQUIRE(n_inputs == 1 && n_outputs == 1);
    for (uint32_t i = 0; i < inputs->attr.n_elems; i++)
        y[i] = x[i] * state->factor;
    state->runs++;
    return 0;
}

static int scale_destroy(rknn_custom_op_context *context) {
    scale_state *state = context->priv_data;
    printf("destroy after %d runs\n", state->runs);
    free(state);
    return 0;
}

static int skip_init(rknn_custom_op_context *context, rknn_custom_op_tensor *inputs,
                     uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs) {
    REQUIRE(context && inputs && outputs && n_inputs == 1 && n_outputs == 1);
    return RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE;
}

static void register_operators(rknn_context context) {
    rknn_custom_op operators[2];
    memset(operators, 0, sizeof operators);
    for (int i = 0; i < 2; i++) {
        strcpy(operators[i].op_type, i ? "Abs" : "cstScale");
        operators[i].version = 1;
        operators[i].target = RKNN_TARGET_TYPE_CPU;
        operators[i].init = i ? skip_init : scale_init;
        operators[i].compute = scale_compute;
        operators[i].destroy = scale_destroy;
    }
    REQUIRE(rknn_register_custom_ops(context, operators, 2) == RKNN_SUCC);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    rknn_context context = 0;
    REQUIRE(rknn_init(&context, argv[1], 0, 0, NULL) == RKNN_SUCC);
    register_operators(context);

    size_t size;
    rknn_input input = {.type = RKNN_TENSOR_FLOAT32, .fmt = RKNN_TENSOR_NHWC};
    input.buf = read_file(argv[2], &size);
    input.size = (uint32_t)size;
    REQUIRE(rknn_inputs_set(context, 1, &input) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);

    rknn_output output = {.want_float = 1};
    REQUIRE(rknn_outputs_get(context, 1, &output, NULL) == RKNN_SUCC);
    write_file(argv[3], output.buf, output.size);
    REQUIRE(rknn_outputs_release(context, 1, &output) == RKNN_SUCC);
    REQUIRE(rknn_destroy(context) == RKNN_SUCC);
    free(input.buf);
    return 0;
}
