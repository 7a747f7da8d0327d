/* What the programs of this folder share: checks, files, and how a tensor is printed. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define REQUIRE(condition)                                                             \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static inline void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    REQUIRE(file && !fseek(file, 0, SEEK_END));
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size);
    REQUIRE(data && fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

static inline void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    REQUIRE(file && fwrite(data, 1, size, file) == size && !fclose(file));
}

static inline rknn_tensor_attr query_attribute(rknn_context context, rknn_query_cmd command,
                                               uint32_t index) {
    rknn_tensor_attr attr = {.index = index};
    REQUIRE(rknn_query(context, command, &attr, sizeof attr) == RKNN_SUCC);
    return attr;
}

static inline void print_attribute(const char *side, const rknn_tensor_attr *attr) {
    printf("%s %s dims", side, attr->name);
    for (uint32_t i = 0; i < attr->n_dims; i++)
        printf(" %u", attr->dims[i]);
    printf(" fmt %d type %d size %u zp %d scale %g\n", attr->fmt, attr->type, attr->size, attr->zp,
           attr->scale);
}

#endif
