/* libawnn: run a network on a file's bytes, write its outputs as floats, dump what went in and out.
 * usage: awnn MODEL INPUT OUTPUT COUNT DUMP */
#include <stdio.h>
#include <stdlib.h>

#include "awnn_lib.h"

int main(int argc, char **argv) {
    if (argc != 6)
        return 2;
    size_t count = (size_t)atoi(argv[4]);
    FILE *input = fopen(argv[2], "rb");
    if (!input || fseek(input, 0, SEEK_END))
        return 3;
    size_t size = (size_t)ftell(input);
    rewind(input);
    void *data = malloc(size);
    if (!data || fread(data, 1, size, input) != size)
        return 4;
    fclose(input);

    awnn_init();
    Awnn_Context_t *none = awnn_create("/none.nb");
    Awnn_Context_t *context = awnn_create(argv[1]);
    if (none || !context)
        return 5;
    void *buffers[] = {data};
    awnn_set_input_buffers(context, buffers);
    for (int run = 0; run < 3; run++)
        awnn_run(context);
    awnn_dump_io(context, argv[5]);
    FILE *output = fopen(argv[3], "wb");
    if (!output || fwrite(awnn_get_output_buffers(context)[0], sizeof(float), count, output) != count)
        return 6;
    fclose(output);
    if (!awnn_get_output_buffer(context, 0) || awnn_get_output_buffer(context, 1))
        return 7;
    awnn_destroy(context);
    awnn_destroy(context);
    awnn_uninit();
    free(data);
    return 0;
}
