/* A client of the RKNN C API: what a program of a user does, step by step, checking every code.
 *
 *     general MODEL INPUT OUTPUT [THREADS]
 *
 * INPUT holds float32 NHWC values of the model's first input; OUTPUT gets float32 values of its
 * first output. The library starts inside the first call, which several threads may make at once.
 */
#include <pthread.h>

#include "program.h"

#define MAX_THREADS 16

static const char *model_path;
static float *input_values;
static size_t input_bytes;

/* From rknn_init to rknn_destroy; returns the first output, which the caller frees. */
static float *infer(int verbose, size_t *output_bytes) {
    rknn_context context = 0;
    size_t size;
    void *model = read_file(model_path, &size);
    REQUIRE(rknn_init(&context, model, (uint32_t)size, 0, NULL) == RKNN_SUCC);
    memset(model, 0, size);
    free(model);

    rknn_sdk_version version;
    REQUIRE(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version) == RKNN_SUCC);
    rknn_input_output_num number;
    REQUIRE(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number) == RKNN_SUCC);
    REQUIRE(number.n_input == 1 && number.n_output >= 1);
    rknn_tensor_attr attr = {.index = 0};
    REQUIRE(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) == RKNN_SUCC);
    REQUIRE(input_bytes == attr.n_elems * sizeof(float));
    if (verbose) {
        printf("version %s, driver %s\n", version.api_version, version.drv_version);
        print_attribute("input", &attr);
    }

    rknn_input input = {.type = RKNN_TENSOR_FLOAT32, .fmt = RKNN_TENSOR_NHWC};
    input.buf = input_values;
    input.size = (uint32_t)input_bytes;
    REQUIRE(rknn_inputs_set(context, 1, &input) == RKNN_SUCC);
    REQUIRE(rknn_run(context, NULL) == RKNN_SUCC);

    rknn_output outputs[16] = {{0}};
    for (uint32_t i = 0; i < number.n_output; i++) {
        outputs[i].index = i;
        outputs[i].want_float = 1;
        memset(&attr, 0, sizeof attr);
        attr.index = i;
        REQUIRE(rknn_query(context, RKNN_QUERY_OUTPUT_ATTR, &attr, sizeof attr) == RKNN_SUCC);
        if (verbose)
            print_attribute("output", &attr);
    }
    REQUIRE(rknn_outputs_get(context, number.n_output, outputs, NULL) == RKNN_SUCC);
    float *result = malloc(outputs[0].size);
    REQUIRE(result);
    memcpy(result, outputs[0].buf, outputs[0].size);
    *output_bytes = outputs[0].size;
    rknn_perf_run perf;
    REQUIRE(rknn_query(context, RKNN_QUERY_PERF_RUN, &perf, sizeof perf) == RKNN_SUCC);
    REQUIRE(perf.run_duration >= 0);
    REQUIRE(rknn_outputs_release(context, number.n_output, outputs) == RKNN_SUCC);
    REQUIRE(rknn_destroy(context) == RKNN_SUCC);
    REQUIRE(rknn_destroy(context) == RKNN_ERR_CTX_INVALID);
    return result;
}

static void *work(void *argument) {
    size_t bytes;
    (void)argument;
    return infer(0, &bytes);
}

int main(int count, char **arguments) {
    REQUIRE(count == 4 || count == 5);
    model_path = arguments[1];
    input_values = read_file(arguments[2], &input_bytes);
    int threads = count == 5 ? atoi(arguments[4]) : 0;
    REQUIRE(threads <= MAX_THREADS);
    pthread_t handles[MAX_THREADS];
    for (int i = 0; i < threads; i++)
        REQUIRE(!pthread_create(&handles[i], NULL, work, NULL));
    void *results[MAX_THREADS];
    for (int i = 0; i < threads; i++)
        REQUIRE(!pthread_join(handles[i], &results[i]));

    size_t bytes;
    float *result = infer(1, &bytes);
    for (int i = 0; i < threads; i++) {
        REQUIRE(!memcmp(results[i], result, bytes));
        free(results[i]);
    }
    write_file(arguments[3], result, bytes);
    free(result);
    free(input_values);
    return 0;
}
