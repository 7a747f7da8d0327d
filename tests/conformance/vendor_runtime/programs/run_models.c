/* Runs models once each, by the general API, and writes their outputs.
 *
 *     run_models LIST
 *
 * Each line of LIST has words with tabs between them: MODEL TYPE OUTPUT INPUT ... . TYPE is the
 * number of the inputs' element type; inputs have the format that the model reports. For each
 * output OUTPUT.raw<i> gets the bytes of its own type and OUTPUT.real<i> float32. A line
 * "@begin OUTPUT" is printed before a model, and "@done OUTPUT CODE" after it, with the code of
 * the first call that failed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define MOST_TENSORS 16
#define MOST_WORDS (MOST_TENSORS + 3)
#define LINE 8192

static void *read_file(const char *path, uint32_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(3);
    *size = (uint32_t)ftell(file);
    rewind(file);
    void *data = malloc(*size + 64);
    if (!data || fread(data, 1, *size, file) != *size)
        exit(3);
    fclose(file);
    return data;
}

static void write_file(const char *prefix, const char *kind, uint32_t index, const void *data,
                       uint32_t size) {
    char path[1024];
    snprintf(path, sizeof path, "%s.%s%u", prefix, kind, index);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        exit(3);
    fclose(file);
}

static int write_outputs(rknn_context context, uint32_t number, const char *prefix,
                         uint8_t want_float) {
    rknn_output outputs[MOST_TENSORS];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t index = 0; index < number; index++) {
        outputs[index].index = index;
        outputs[index].want_float = want_float;
    }
    int code = rknn_outputs_get(context, number, outputs, NULL);
    for (uint32_t index = 0; index < number && !code; index++)
        write_file(prefix, want_float ? "real" : "raw", index, outputs[index].buf,
                   outputs[index].size);
    return code ? code : rknn_outputs_release(context, number, outputs);
}

static int run(rknn_context context, int type, const char *prefix, char **inputs) {
    rknn_input_output_num number;
    rknn_input entries[MOST_TENSORS];
    int code = rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number);
    if (code || number.n_input > MOST_TENSORS || number.n_output > MOST_TENSORS)
        return code ? code : -100;
    memset(entries, 0, sizeof entries);
    for (uint32_t index = 0; index < number.n_input && inputs[index]; index++) {
        rknn_tensor_attr found;
        memset(&found, 0, sizeof found);
        found.index = index;
        code = code ? code : rknn_query(context, RKNN_QUERY_INPUT_ATTR, &found, sizeof found);
        entries[index].index = index;
        entries[index].type = type;
        entries[index].fmt = found.fmt;
        entries[index].buf = read_file(inputs[index], &entries[index].size);
    }
    code = code ? code : rknn_inputs_set(context, number.n_input, entries);
    code = code ? code : rknn_run(context, NULL);
    code = code ? code : write_outputs(context, number.n_output, prefix, 0);
    code = code ? code : write_outputs(context, number.n_output, prefix, 1);
    for (uint32_t index = 0; index < number.n_input; index++)
        free(entries[index].buf);
    return code;
}

static int run_line(char *line) {
    char *words[MOST_WORDS + 1] = {0};
    int count = 0;
    for (char *word = strtok(line, "\t\n"); word && count < MOST_WORDS; word = strtok(NULL, "\t\n"))
        words[count++] = word;
    if (count < 4)
        return 0;
    printf("@begin %s\n", words[2]);
    fflush(stdout);
    uint32_t size;
    void *model = read_file(words[0], &size);
    rknn_context context = 0;
    int code = rknn_init(&context, model, size, 0, NULL);
    if (!code) {
        code = run(context, atoi(words[1]), words[2], words + 3);
        rknn_destroy(context);
    }
    printf("@done %s %d\n", words[2], code);
    fflush(stdout);
    free(model);
    return 1;
}

int main(int count, char **arguments) {
    static char line[LINE];
    FILE *list = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!list)
        return 2;
    while (fgets(line, sizeof line, list))
        run_line(line);
    fclose(list);
    return 0;
}
