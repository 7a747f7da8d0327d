/* One network on several cores: contexts that share weights and scratch memory, runs that don't wait.
 *
 *     many_contexts MODEL INPUT OUTPUT
 *
 * INPUT holds float32 NHWC values of the model's only input; OUTPUT gets the float32 result. Every
 * way to come by it has to give the same numbers.
 */
#include <pthread.h>

#include "program.h"

#define CORES 3
#define RUNS 20

static float *input_values;
static size_t input_bytes;
static float *expected;
static uint32_t elements;

static void set_input(rknn_context context, float *values) {
    rknn_input input = {.buf = values, .size = (uint32_t)input_bytes};
    input.type = RKNN_TENSOR_FLOAT32;
    input.fmt = RKNN_TENSOR_NHWC;
    REQUIRE(rknn_inputs_set(context, 1, &input) == RKNN_SUCC);
}

static void get_output(rknn_context context, float *values) {
    rknn_output result = {.want_float = 1, .is_prealloc = 1, .buf = values};
    result.size = elements * (uint32_t)sizeof(float);
    REQUIRE(rknn_outputs_get(context, 1, &result, NULL) == RKNN_SUCC);
    REQUIRE(rknn_outputs_release(context, 1, &result) == RKNN_SUCC);
}

static void check(rknn_context context) {
    float *values = malloc(elements * sizeof(float));
    REQUIRE(values);
    get_output(context, values);
    REQUIRE(!memcmp(values, expected, elements * sizeof(float)));
    free(values);
}

/* A thread that owns a context, which is how programs keep the cores busy. No chip's runtime waits
 * in rknn_wait: getting the outputs does. */
static void *work(void *argument) {
    rknn_context context = *(rknn_context *)argument;
    rknn_run_extend extend = {.non_block = 1};
    for (int i = 0; i < RUNS; i++) {
        set_input(context, input_values);
        REQUIRE(rknn_run(context, &extend) == RKNN_SUCC);
        check(context);
    }
    return NULL;
}

static void run_on_every_core(rknn_context first) {
    rknn_context contexts[CORES] = {first};
    pthread_t threads[CORES];
    const rknn_core_mask masks[CORES] = {RKNN_NPU_CORE_0, RKNN_NPU_CORE_1, RKNN_NPU_CORE_2};
    for (int i = 1; i < CORES; i++)
        REQUIRE(rknn_dup_context(&contexts[0], &contexts[i]) == RKNN_SUCC);
    for (int i = 0; i < CORES; i++) {
        REQUIRE(rknn_set_core_mask(contexts[i], masks[i]) == RKNN_SUCC);
        REQUIRE(!pthread_create(&threads[i], NULL, work, &contexts[i]));
    }
    for (int i = 0; i < CORES; i++)
        REQUIRE(!pthread_join(threads[i], NULL));
    for (int i = 1; i < CORES; i++)
        REQUIRE(rknn_destroy(contexts[i]) == RKNN_SUCC);
}

/* Two contexts, each with the memory for intermediate tensors that the other uses as well. */
static void share_internal_memory(void *model, size_t size) {
    rknn_context contexts[2] = {0};
    rknn_mem_size needed;
    for (int i = 0; i < 2; i++) {
        uint32_t flag = RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE;
        REQUIRE(rknn_init(&contexts[i], model, (uint32_t)size, flag, NULL) == RKNN_SUCC);
    }
    REQUIRE(rknn_query(contexts[0], RKNN_QUERY_MEM_SIZE, &needed, sizeof needed) == RKNN_SUCC);
    uint32_t bytes = needed.total_internal_size ? needed.total_internal_size : 1;
    rknn_tensor_mem *memory = rknn_create_mem(contexts[0], bytes);
    REQUIRE(memory);
    for (int i = 0; i < 2; i++) {
        rknn_tensor_mem *part =
            rknn_create_mem_from_fd(contexts[i], memory->fd, memory->virt_addr, bytes, 0);
        REQUIRE(part && rknn_set_internal_mem(contexts[i], part) == RKNN_SUCC);
    }
    for (int i = 0; i < 2; i++) {
        set_input(contexts[i], input_values);
        REQUIRE(rknn_run(contexts[i], NULL) == RKNN_SUCC);
        check(contexts[i]);
    }
    REQUIRE(rknn_destroy_mem(contexts[0], memory) == RKNN_SUCC);
    for (int i = 0; i < 2; i++)
        REQUIRE(rknn_destroy(contexts[i]) == RKNN_SUCC);
}

int main(int count, char **arguments) {
    REQUIRE(count == 4);
    size_t size;
    void *model = read_file(arguments[1], &size);
    input_values = read_file(arguments[2], &input_bytes);
    rknn_context context = 0;
    uint32_t flags = RKNN_FLAG_PRIOR_MEDIUM | RKNN_FLAG_COLLECT_PERF_MASK;
    REQUIRE(rknn_init(&context, model, (uint32_t)size, flags, NULL) == RKNN_SUCC);
    elements = query_attribute(context, RKNN_QUERY_OUTPUT_ATTR, 0).n_elems;
    expected = malloc(elements * sizeof(float));
    REQUIRE(expected);
    set_input(context, input_values);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);
    get_output(context, expected);
    rknn_perf_detail detail;
    REQUIRE(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail) == RKNN_SUCC);
    REQUIRE(strlen(detail.perf_data) == detail.data_len);

    run_on_every_core(context);
    REQUIRE(rknn_destroy(context) == RKNN_SUCC);
    share_internal_memory(model, size);
    write_file(arguments[3], expected, elements * sizeof(float));
    free(model);
    free(input_values);
    free(expected);
    return 0;
}
