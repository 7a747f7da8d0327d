/* Models with several input shapes. */
#include "walk.h"

static rknn_context context;

static int set_shape(const rknn_tensor_attr *wanted) {
    rknn_tensor_attr copy = *wanted;
    return rknn_set_input_shapes(context, 1, &copy);
}

static void set_changed(const rknn_tensor_attr *input) {
#define CHANGED(what, change)                                                                      \
    do {                                                                                           \
        rknn_tensor_attr x = *input;                                                               \
        change;                                                                                    \
        CALL(set_shape(&x), "rknn_set_input_shapes, " what);                                       \
    } while (0)
    CHANGED("its own", (void)x);
    CHANGED("another size", x.dims[1]++);
    CHANGED("n_dims 3", x.n_dims = 3);
    CHANGED("index 9", x.index = 9);
    CHANGED("fmt NCHW", x.fmt = RKNN_TENSOR_NCHW);
    CHANGED("type UINT8", x.type = RKNN_TENSOR_UINT8);
    CHANGED("name empty", x.name[0] = 0);
    CHANGED("name of nobody", strcpy(x.name, "nobody"));
    if (input->n_dims == 4)
        CHANGED("fmt and dims NCHW", (x.fmt = RKNN_TENSOR_NCHW, x.dims[1] = input->dims[3],
                                      x.dims[2] = input->dims[1], x.dims[3] = input->dims[2]));
#undef CHANGED
}

static void tell_shape(uint32_t shape) {
    static const struct {
        int query;
        const char *name;
    } queries[] = {{RKNN_QUERY_INPUT_ATTR, "INPUT_ATTR"},
                   {RKNN_QUERY_OUTPUT_ATTR, "OUTPUT_ATTR"},
                   {RKNN_QUERY_NATIVE_INPUT_ATTR, "NATIVE_INPUT_ATTR"},
                   {RKNN_QUERY_NATIVE_OUTPUT_ATTR, "NATIVE_OUTPUT_ATTR"},
                   {RKNN_QUERY_CURRENT_INPUT_ATTR, "CURRENT_INPUT_ATTR"},
                   {RKNN_QUERY_CURRENT_OUTPUT_ATTR, "CURRENT_OUTPUT_ATTR"},
                   {RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, "CURRENT_NATIVE_INPUT_ATTR"},
                   {RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR, "CURRENT_NATIVE_OUTPUT_ATTR"}};
    for (size_t place = 0; place < sizeof queries / sizeof *queries; place++) {
        rknn_tensor_attr found;
        int code = -1;
        memset(&found, 0, sizeof found);
        if (!announce("shape %u: %s", shape, queries[place].name))
            continue;
        code = rknn_query(context, queries[place].query, &found, sizeof found);
        answer(code);
        if (!code)
            note_attribute(queries[place].name, &found);
    }
}

static void run_shape(uint32_t shape) {
    rknn_tensor_attr current = attribute(context, RKNN_QUERY_CURRENT_INPUT_ATTR, 0);
    rknn_input input;
    rknn_output output;
    memset(&input, 0, sizeof input);
    memset(&output, 0, sizeof output);
    input.type = RKNN_TENSOR_FLOAT32;
    input.fmt = current.fmt;
    input.size = current.n_elems * 4;
    input.buf = cleared(input.size);
    output.want_float = 1;
    CALL(rknn_inputs_set(context, 1, &input), "shape %u: rknn_inputs_set", shape);
    CALL(rknn_run(context, NULL), "shape %u: rknn_run", shape);
    CALL(rknn_outputs_get(context, 1, &output, NULL), "shape %u: rknn_outputs_get", shape);
    note("size %u", output.size);
}

void walk_shapes(void) {
    context = opened(0);
    uint32_t number = counts(context).n_input;
    rknn_tensor_attr input = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    rknn_input_range *range = cleared(sizeof *range);
    CALL(rknn_set_input_shapes(context, number, NULL), "rknn_set_input_shapes NULL");
    CALL(rknn_set_input_shapes(context, 0, &input), "rknn_set_input_shapes, none");
    rknn_tensor_attr two[] = {input, input};
    CALL(rknn_set_input_shapes(context, number + 1, two), "rknn_set_input_shapes, n_input+1");
    CALL(rknn_set_input_shape(context, NULL), "rknn_set_input_shape NULL");
    CALL(rknn_set_input_shape(context, &input), "rknn_set_input_shape, its own");
    set_changed(&input);
    if (rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range))
        range->shape_number = 0;
    for (uint32_t shape = 0; shape < range->shape_number && shape < 4; shape++) {
        rknn_tensor_attr wanted = input;
        for (uint32_t axis = 0; axis < range->n_dims; axis++)
            wanted.dims[axis] = range->dyn_range[shape][axis];
        wanted.fmt = range->fmt;
        CALL(set_shape(&wanted), "shape %u: rknn_set_input_shapes", shape);
        tell_shape(shape);
        run_shape(shape);
    }
    CALL(rknn_destroy(context), "rknn_destroy");
}

void walk_shapes_unset(void) {
    rknn_context copy = 0;
    context = opened(0);
    CALL(rknn_dup_context(&context, &copy), "rknn_dup_context, no shape set");
    CALL(feed(context), "rknn_inputs_set, no shape set");
    CALL(rknn_run(context, NULL), "rknn_run, no shape set");
    rknn_destroy(context);
}
