/* Every call on a handle that no context has. */
#include "walk.h"

#define WILD 1234

static rknn_context (*handle)(void);
static const char *kind;

#define ON(call, ...)                                                                              \
    do {                                                                                           \
        rknn_context context = handle();                                                           \
        CALL(call, __VA_ARGS__, kind);                                                             \
    } while (0)

static int duplicate(rknn_context context) {
    rknn_context copy = 0;
    return rknn_dup_context(&context, &copy);
}

static void call_all(void) {
    static rknn_input input;
    static rknn_output output;
    static rknn_tensor_mem memory;
    static rknn_tensor_attr wanted;
    static rknn_run_extend extend;
    static rknn_input_output_num number;
    ON(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number), "rknn_query of %s");
    ON(rknn_inputs_set(context, 1, &input), "rknn_inputs_set of %s");
    ON(rknn_run(context, NULL), "rknn_run of %s");
    ON(rknn_wait(context, NULL), "rknn_wait of %s");
    ON(rknn_wait(context, &extend), "rknn_wait with extend of %s");
    ON(rknn_outputs_get(context, 1, &output, NULL), "rknn_outputs_get of %s");
    ON(rknn_outputs_release(context, 1, &output), "rknn_outputs_release of %s");
    ON(rknn_create_mem(context, 64) != NULL, "rknn_create_mem of %s");
    ON(rknn_create_mem_from_fd(context, 1, NULL, 64, 0) != NULL, "rknn_create_mem_from_fd of %s");
    ON(rknn_create_mem_from_phys(context, 4096, NULL, 64) != NULL,
       "rknn_create_mem_from_phys of %s");
    ON(rknn_destroy_mem(context, &memory), "rknn_destroy_mem of %s");
    ON(rknn_set_io_mem(context, &memory, &wanted), "rknn_set_io_mem of %s");
    ON(rknn_set_core_mask(context, 1), "rknn_set_core_mask of %s");
    ON(rknn_set_batch_core_num(context, 1), "rknn_set_batch_core_num of %s");
    ON(duplicate(context), "rknn_dup_context of %s");
    ON(rknn_set_weight_mem(context, &memory), "rknn_set_weight_mem of %s");
    ON(rknn_set_internal_mem(context, &memory), "rknn_set_internal_mem of %s");
    ON(rknn_set_input_shapes(context, 1, &wanted), "rknn_set_input_shapes of %s");
    ON(rknn_set_input_shape(context, &wanted), "rknn_set_input_shape of %s");
    ON(rknn_destroy(context), "rknn_destroy of %s");
}

static rknn_context destroyed(void) {
    rknn_context context = opened(0);
    rknn_destroy(context);
    return context;
}

static rknn_context none(void) { return 0; }
static rknn_context wild(void) { return WILD; }

void walk_destroyed(void) {
    handle = destroyed;
    kind = "a destroyed context";
    call_all();
}

void walk_no_handle(void) {
    handle = none;
    kind = "context 0";
    call_all();
}

void walk_wild_handle(void) {
    handle = wild;
    kind = "context 1234";
    call_all();
}
