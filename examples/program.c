/* Load a model, run it on zeros, and print the largest value of its first output.
 *
 *     python -m anynpu.rknn.header > rknn_api.h
 *     gcc -std=c11 -I. -o program program.c -L"$(anynpu soft lib)" -lrknnrt
 *     anynpu soft run -- ./program model.rknn      (on a board: ./program model.rknn)
 */
#include <stdio.h>
#include <stdlib.h>

#include "rknn_api.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int code = (call);                                                                         \
        if (code != RKNN_SUCC) {                                                                   \
            fprintf(stderr, "%s: %d\n", #call, code);                                              \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s MODEL\n", arguments[0]);
        return 2;
    }
    rknn_context context;
    TRY(rknn_init(&context, arguments[1], 0, 0, NULL));

    rknn_tensor_attr attr = {.index = 0};
    TRY(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    rknn_input input = {.index = 0, .type = RKNN_TENSOR_UINT8, .fmt = attr.fmt, .size = attr.n_elems};
    input.buf = calloc(attr.n_elems, 1);
    TRY(rknn_inputs_set(context, 1, &input));
    TRY(rknn_run(context, NULL));

    rknn_output output = {.index = 0, .want_float = 1};
    TRY(rknn_outputs_get(context, 1, &output, NULL));
    const float *values = output.buf;
    uint32_t elements = output.size / sizeof *values, best = 0;
    for (uint32_t i = 1; i < elements; i++)
        if (values[i] > values[best])
            best = i;
    printf("input %s, %u elements; the largest of %u values is %.3f, at %u\n", attr.name,
           attr.n_elems, elements, (double)values[best], best);

    TRY(rknn_outputs_release(context, 1, &output));
    free(input.buf);
    TRY(rknn_destroy(context));
    return 0;
}
