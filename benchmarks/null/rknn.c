/* A device that computes nothing: rknn_* functions whose runs take a set time on a core.
 *
 * What a runtime costs shows on it, and whether it keeps the cores busy. Environment:
 *
 *     NULL_DEVICE_CORES     microseconds of a run on each core, such as 10000,10000,10000
 *     NULL_DEVICE_INPUT     dimensions of the only input, NHWC, such as 1,224,224,3
 *     NULL_DEVICE_OUTPUT    dimensions of the only output, NCHW
 *
 * The input is int8, so rknn_inputs_set copies uint8 and float32 as real values; the output is
 * given as float32, written in full. RKNN_NPU_CORE_AUTO takes an idle core, as a chip does.
 */
#include <stdio.h>
#include <string.h>

#include "cores.h"
#include "rknn_api.h"

#define MAX_CONTEXTS 256

struct context {
    int is_alive;
    int mask;
    uint8_t *input;
    float value;
};

static struct context contexts[MAX_CONTEXTS];
static rknn_tensor_attr input_attr, output_attr;

static struct context *find(rknn_context handle) {
    return handle && handle < MAX_CONTEXTS && contexts[handle].is_alive ? &contexts[handle] : NULL;
}

static void describe(rknn_tensor_attr *attr, const char *variable, const char *otherwise,
                     const char *name) {
    long dims[RKNN_MAX_DIMS];
    memset(attr, 0, sizeof *attr);
    attr->n_dims = (uint32_t)read_numbers(variable, otherwise, dims, RKNN_MAX_DIMS);
    attr->n_elems = 1;
    for (uint32_t i = 0; i < attr->n_dims; i++) {
        attr->dims[i] = (uint32_t)dims[i];
        attr->n_elems *= attr->dims[i];
    }
    snprintf(attr->name, sizeof attr->name, "%s", name);
    attr->type = RKNN_TENSOR_INT8;
    attr->qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC;
    attr->scale = 1;
    attr->size = attr->size_with_stride = attr->n_elems;
}

static rknn_context add(void) {
    rknn_context handle = 1;
    pthread_mutex_lock(&lock);
    while (handle < MAX_CONTEXTS && contexts[handle].is_alive)
        handle++;
    if (handle < MAX_CONTEXTS) {
        contexts[handle] = (struct context){.is_alive = 1};
        contexts[handle].input = calloc(input_attr.n_elems, sizeof(float));
    }
    pthread_mutex_unlock(&lock);
    return handle < MAX_CONTEXTS ? handle : 0;
}

EXPORT int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
                     rknn_init_extend *extend) {
    (void)model, (void)size, (void)flag, (void)extend;
    core_count = read_numbers("NULL_DEVICE_CORES", "0,0,0", core_times, MAX_CORES);
    describe(&input_attr, "NULL_DEVICE_INPUT", "1,4,4,3", "x");
    describe(&output_attr, "NULL_DEVICE_OUTPUT", "1,3,4,4", "y");
    input_attr.fmt = input_attr.n_dims == 4 ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED;
    output_attr.fmt = output_attr.n_dims == 4 ? RKNN_TENSOR_NCHW : RKNN_TENSOR_UNDEFINED;
    *context = add();
    return *context ? RKNN_SUCC : RKNN_ERR_MALLOC_FAIL;
}

EXPORT int rknn_dup_context(rknn_context *from, rknn_context *to) {
    if (!find(*from))
        return RKNN_ERR_CTX_INVALID;
    *to = add();
    return *to ? RKNN_SUCC : RKNN_ERR_MALLOC_FAIL;
}

EXPORT int rknn_destroy(rknn_context handle) {
    struct context *context = find(handle);
    if (!context)
        return RKNN_ERR_CTX_INVALID;
    free(context->input);
    context->is_alive = 0;
    return RKNN_SUCC;
}

EXPORT int rknn_set_core_mask(rknn_context handle, rknn_core_mask mask) {
    struct context *context = find(handle);
    if (!context)
        return RKNN_ERR_CTX_INVALID;
    if (mask != RKNN_NPU_CORE_ALL && (int)mask >> core_count)
        return RKNN_ERR_PARAM_INVALID;
    context->mask = mask == RKNN_NPU_CORE_ALL ? (1 << core_count) - 1 : (int)mask;
    return RKNN_SUCC;
}

EXPORT int rknn_query(rknn_context handle, rknn_query_cmd command, void *info, uint32_t size) {
    if (!find(handle))
        return RKNN_ERR_CTX_INVALID;
    switch (command) {
    case RKNN_QUERY_IN_OUT_NUM:
        *(rknn_input_output_num *)info = (rknn_input_output_num){1, 1};
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_ATTR:
        *(rknn_tensor_attr *)info = input_attr;
        return RKNN_SUCC;
    case RKNN_QUERY_OUTPUT_ATTR:
        *(rknn_tensor_attr *)info = output_attr;
        return RKNN_SUCC;
    case RKNN_QUERY_SDK_VERSION:
        memset(info, 0, size);
        strcpy(((rknn_sdk_version *)info)->api_version, "2.4.1 (null device)");
        strcpy(((rknn_sdk_version *)info)->drv_version, "0.9.8");
        return RKNN_SUCC;
    case RKNN_QUERY_CUSTOM_STRING:
        memset(info, 0, size);
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE:
        return RKNN_ERR_MODEL_INVALID;
    default:
        return RKNN_ERR_PARAM_INVALID;
    }
}

EXPORT int rknn_inputs_set(rknn_context handle, uint32_t count, rknn_input inputs[]) {
    struct context *context = find(handle);
    if (!context || count != 1)
        return context ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    size_t size = inputs[0].type == RKNN_TENSOR_FLOAT32 ? sizeof(float) : 1;
    if (inputs[0].size < input_attr.n_elems * size)
        return RKNN_ERR_PARAM_INVALID;
    memcpy(context->input, inputs[0].buf, input_attr.n_elems * size);
    context->value = size == 1 ? context->input[0] : *(float *)context->input;
    return RKNN_SUCC;
}

EXPORT int rknn_run(rknn_context handle, rknn_run_extend *extend) {
    struct context *context = find(handle);
    (void)extend;
    if (!context)
        return RKNN_ERR_CTX_INVALID;
    run_on_core(context->mask);
    return RKNN_SUCC;
}

EXPORT int rknn_wait(rknn_context handle, rknn_run_extend *extend) {
    (void)extend;
    return find(handle) ? RKNN_SUCC : RKNN_ERR_CTX_INVALID;
}

EXPORT int rknn_outputs_get(rknn_context handle, uint32_t count, rknn_output outputs[],
                            rknn_output_extend *extend) {
    struct context *context = find(handle);
    (void)extend;
    if (!context || count != 1)
        return context ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    size_t size = output_attr.n_elems * (outputs[0].want_float ? sizeof(float) : 1);
    if (!outputs[0].is_prealloc)
        outputs[0].buf = malloc(size);
    if (outputs[0].is_prealloc && outputs[0].size < size)
        return RKNN_ERR_PARAM_INVALID;
    outputs[0].size = (uint32_t)size;
    if (!outputs[0].want_float)
        memset(outputs[0].buf, (int)context->value, size);
    else
        for (size_t i = 0; i < output_attr.n_elems; i++)
            ((float *)outputs[0].buf)[i] = context->value;
    return RKNN_SUCC;
}

EXPORT int rknn_outputs_release(rknn_context handle, uint32_t count, rknn_output outputs[]) {
    if (!find(handle))
        return RKNN_ERR_CTX_INVALID;
    for (uint32_t i = 0; i < count; i++)
        if (!outputs[i].is_prealloc)
            free(outputs[i].buf);
    return RKNN_SUCC;
}
