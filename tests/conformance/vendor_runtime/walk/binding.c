/* rknn_set_io_mem: what an attribute may say, how much memory it needs; zero copy in order. */
#include "walk.h"

static rknn_context context;
static rknn_tensor_mem *large;

static int bind(rknn_tensor_mem *memory, const rknn_tensor_attr *wanted) {
    rknn_tensor_attr copy = *wanted;
    return rknn_set_io_mem(context, memory, &copy);
}

/* One field of an input's attribute is changed at a time. */
static void bind_changed(const rknn_tensor_attr *input, uint32_t number) {
#define CHANGED(what, change)                                                                      \
    do {                                                                                           \
        rknn_tensor_attr x = *input;                                                               \
        change;                                                                                    \
        CALL(bind(large, &x), "rknn_set_io_mem input, " what);                                     \
    } while (0)
    CHANGED("index n_input", x.index = number);
    CHANGED("index 99", x.index = 99);
    CHANGED("name of nobody", strcpy(x.name, "nobody"));
    CHANGED("name empty", x.name[0] = 0);
    CHANGED("index 99, name of nobody", (x.index = 99, strcpy(x.name, "nobody")));
    CHANGED("all zeros", memset(&x, 0, sizeof x));
    CHANGED("n_dims 0", x.n_dims = 0);
    CHANGED("dims[1]+1", x.dims[1]++);
    CHANGED("n_elems 1", x.n_elems = 1);
    CHANGED("size 1", x.size = 1);
    CHANGED("size 0", x.size = 0);
    CHANGED("size_with_stride 0", x.size_with_stride = 0);
    CHANGED("both sizes 1", x.size = x.size_with_stride = 1);
    CHANGED("another scale", (x.scale = 5, x.zp = 3));
    CHANGED("w_stride 64", x.w_stride = 64);
    CHANGED("w_stride 1", x.w_stride = 1);
    CHANGED("h_stride 64", x.h_stride = 64);
    CHANGED("h_stride 1", x.h_stride = 1);
    CHANGED("qnt_type 1", x.qnt_type = 1);
#undef CHANGED
}

static void bind_size(const rknn_tensor_attr *wanted, uint32_t size, const char *what,
                      const char *name) {
    rknn_tensor_mem *memory = rknn_create_mem(context, size);
    CALL(bind(memory, wanted), "rknn_set_io_mem %s, memory of %s", what, name);
}

static void bind_sizes(const rknn_tensor_attr *wanted, const char *what) {
    bind_size(wanted, 16, what, "16 bytes");
    bind_size(wanted, wanted->size, what, "size");
    bind_size(wanted, wanted->size - 1, what, "size-1");
    bind_size(wanted, wanted->size_with_stride, what, "size_with_stride");
    bind_size(wanted, wanted->size_with_stride - 1, what, "size_with_stride-1");
}

void walk_binding(void) {
    context = opened(0);
    large = rknn_create_mem(context, LARGE);
    rknn_tensor_attr input = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    rknn_tensor_attr output = attribute(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    rknn_tensor_attr native_input = attribute(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    rknn_tensor_attr native_output = attribute(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, 0);
    CALL(rknn_set_io_mem(context, NULL, &input), "rknn_set_io_mem, mem NULL");
    CALL(rknn_set_io_mem(context, large, NULL), "rknn_set_io_mem, attr NULL");
    bind_changed(&input, counts(context).n_input);
    bind_sizes(&input, "INPUT_ATTR");
    bind_sizes(&native_input, "NATIVE_INPUT_ATTR");
    bind_sizes(&output, "OUTPUT_ATTR");
    bind_sizes(&native_output, "NATIVE_OUTPUT_ATTR");
    CALL(rknn_destroy(context), "rknn_destroy");
}

/* ----------------------------------------------------------------------------- types, formats */

static void bind_types(int query, const char *name, int passes) {
    rknn_tensor_attr found = attribute(context, query, 0);
    for (int pass = 0; pass < passes; pass++)
        for (int type = -1; type < 11; type++)
            for (int format = 0; format < (type < 0 || type > 9 ? 1 : 5); format++) {
                rknn_tensor_attr wanted = found;
                wanted.type = type;
                wanted.fmt = format;
                wanted.pass_through = (uint8_t)pass;
                CALL(bind(large, &wanted), "rknn_set_io_mem %s %s %s, pass_through %d", name,
                     type_name(type), format_name(format), pass);
            }
}

void walk_binding_types(void) {
    context = opened(0);
    large = rknn_create_mem(context, LARGE);
    bind_types(RKNN_QUERY_INPUT_ATTR, "INPUT_ATTR", 2);
    bind_types(RKNN_QUERY_NATIVE_INPUT_ATTR, "NATIVE_INPUT_ATTR", 2);
    large = rknn_create_mem(context, LARGE);
    bind_types(RKNN_QUERY_OUTPUT_ATTR, "OUTPUT_ATTR", 1);
    bind_types(RKNN_QUERY_NATIVE_OUTPUT_ATTR, "NATIVE_OUTPUT_ATTR", 1);
    CALL(rknn_destroy(context), "rknn_destroy");
}

/* --------------------------------------------------------------------------------- zero copy */

static uint32_t needed(const rknn_tensor_attr *found) {
    return found->size_with_stride > found->size ? found->size_with_stride : found->size;
}

static rknn_tensor_mem *bind_native(int query, const char *what, uint32_t index) {
    rknn_tensor_attr found = attribute(context, query, index);
    rknn_tensor_mem *memory = rknn_create_mem(context, needed(&found));
    found.pass_through = query == RKNN_QUERY_NATIVE_INPUT_ATTR;
    CALL(rknn_set_io_mem(context, memory, &found), "rknn_set_io_mem native %s %u", what, index);
    return memory;
}

void walk_zero_copy(void) {
    rknn_tensor_mem *input = NULL;
    rknn_output outputs[MOST_TENSORS];
    context = opened(0);
    rknn_input_output_num number = counts(context);
    for (uint32_t index = 0; index < number.n_input; index++) {
        rknn_tensor_mem *bound = bind_native(RKNN_QUERY_NATIVE_INPUT_ATTR, "input", index);
        input = index ? input : bound;
    }
    CALL(rknn_run(context, NULL), "rknn_run, inputs bound, outputs not");
    for (uint32_t index = 0; index < number.n_output; index++)
        bind_native(RKNN_QUERY_NATIVE_OUTPUT_ATTR, "output", index);
    CALL(rknn_run(context, NULL), "rknn_run, all bound");
    fill_outputs(context, outputs);
    CALL(rknn_outputs_get(context, number.n_output, outputs, NULL), "rknn_outputs_get, all bound");
    CALL(feed(context), "rknn_inputs_set, all bound");
    CALL(rknn_run(context, NULL), "rknn_run after rknn_inputs_set");
    CALL(rknn_destroy_mem(context, input), "rknn_destroy_mem of a bound input");
    CALL(rknn_run(context, NULL), "rknn_run without that memory");
    CALL(rknn_destroy(context), "rknn_destroy");
}

void walk_outputs_alone(void) {
    rknn_output outputs[MOST_TENSORS];
    context = opened(0);
    uint32_t number = counts(context).n_output;
    for (uint32_t index = 0; index < number; index++)
        bind_native(RKNN_QUERY_NATIVE_OUTPUT_ATTR, "output", index);
    CALL(rknn_run(context, NULL), "rknn_run, outputs bound, inputs not");
    CALL(feed(context), "rknn_inputs_set, outputs bound");
    CALL(rknn_run(context, NULL), "rknn_run");
    fill_outputs(context, outputs);
    CALL(rknn_outputs_get(context, number, outputs, NULL), "rknn_outputs_get, outputs bound");
    note("buf is %s", presence(outputs[0].buf));
    note("size %u", outputs[0].size);
    rknn_tensor_attr input = attribute(context, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    rknn_tensor_attr output = attribute(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, 0);
    large = rknn_create_mem(context, LARGE);
    CALL(bind(large, &input), "rknn_set_io_mem native input without pass_through");
    CALL(bind(large, &output), "rknn_set_io_mem native output, the same memory");
    CALL(rknn_run(context, NULL), "rknn_run, one memory for both");
}
