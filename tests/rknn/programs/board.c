/* A stand-in for a board's runtime: its model is y = op(x) for four numbers, the operator being the
 * first that is registered. It calls it from a thread of its own, with tensors that begin somewhere
 * inside their memory, as a runtime may. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* How the header declares the command is its own matter. */
#define rknn_query declared_rknn_query
#include "rknn_api.h"
#undef rknn_query

enum { ELEMENTS = 4, OFFSET = 64 };

static float memory[2][OFFSET / sizeof(float) + ELEMENTS];
static rknn_custom_op operator;
static rknn_custom_op_context operator_context;
static rknn_custom_op_tensor tensors[2];
static int64_t axis = 7;
static int is_registered;

static void describe(rknn_tensor_attr *attr, const char *name) {
    memset(attr, 0, sizeof *attr);
    strcpy(attr->name, name);
    attr->n_dims = 2;
    attr->dims[0] = attr->dims[1] = 2;
    attr->n_elems = ELEMENTS;
    attr->size = ELEMENTS * sizeof(float);
    attr->fmt = RKNN_TENSOR_UNDEFINED;
    attr->type = RKNN_TENSOR_FLOAT32;
}

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend) {
    (void)model, (void)size, (void)flag, (void)extend;
    *context = 1;
    return 0;
}

int rknn_query(rknn_context context, int command, void *info, uint32_t size) {
    (void)context, (void)size;
    if (command == RKNN_QUERY_IN_OUT_NUM)
        *(rknn_input_output_num *)info = (rknn_input_output_num){1, 1};
    else if (command == RKNN_QUERY_INPUT_ATTR || command == RKNN_QUERY_OUTPUT_ATTR)
        describe(info, command == RKNN_QUERY_INPUT_ATTR ? "x" : "y");
    else
        return -5;
    return 0;
}

int rknn_register_custom_ops(rknn_context context, rknn_custom_op *operators, uint32_t count) {
    (void)context, (void)count;
    operator = operators[0];
    is_registered = 1;
    memset(&operator_context, 0, sizeof operator_context);
    for (int i = 0; i < 2; i++) {
        describe(&tensors[i].attr, i ? "y" : "x");
        tensors[i].mem.virt_addr = memory[i];
        tensors[i].mem.offset = OFFSET;
    }
    return operator.init(&operator_context, &tensors[0], 1, &tensors[1], 1);
}

void rknn_custom_op_get_op_attr(rknn_custom_op_context *context, const char *name,
                                rknn_custom_op_attr *attr) {
    memset(attr, 0, sizeof *attr);
    if (context == &operator_context && !strcmp(name, "axis"))
        *attr = (rknn_custom_op_attr){
            .dtype = RKNN_TENSOR_INT64, .n_elems = 1, .data = &axis};
}

int rknn_inputs_set(rknn_context context, uint32_t n, rknn_input *inputs) {
    (void)context, (void)n;
    memcpy((char *)memory[0] + OFFSET, inputs[0].buf, inputs[0].size);
    return 0;
}

static void *run(void *result) {
    int code = operator.prepare(&operator_context, &tensors[0], 1, &tensors[1], 1);
    if (!code)
        code = operator.compute(&operator_context, &tensors[0], 1, &tensors[1], 1);
    *(int *)result = code;
    return NULL;
}

int rknn_run(rknn_context context, rknn_run_extend *extend) {
    (void)context, (void)extend;
    pthread_t thread;
    int code = -1;
    if (!pthread_create(&thread, NULL, run, &code))
        pthread_join(thread, NULL);
    return code;
}

int rknn_outputs_get(rknn_context context, uint32_t n, rknn_output *outputs,
                     rknn_output_extend *extend) {
    (void)context, (void)n, (void)extend;
    memcpy(outputs[0].buf, (char *)memory[1] + OFFSET, ELEMENTS * sizeof(float));
    return 0;
}

int rknn_outputs_release(rknn_context context, uint32_t n, rknn_output *outputs) {
    (void)context, (void)n, (void)outputs;
    return 0;
}

int rknn_destroy(rknn_context context) {
    (void)context;
    int code = is_registered ? operator.destroy(&operator_context) : 0;
    is_registered = 0;
    return code;
}
