/* rknn_init: wrong arguments, wrong files, parts of files, flags. */
#include "walk.h"

#include <unistd.h>

#define UNTOUCHED 0x77

static const char *state(rknn_context context) {
    return context == UNTOUCHED ? "untouched" : context ? "set" : "0";
}

static void try(const char *what, const void *data, uint32_t size, rknn_init_extend *extend) {
    rknn_context context = UNTOUCHED;
    int code = -1;
    if (!announce("rknn_init %s", what))
        return;
    code = rknn_init(&context, (void *)data, size, 0, extend);
    answer(code);
    note("the context is %s", state(context));
    if (!code)
        rknn_destroy(context);
}

static void *changed(size_t place, uint8_t value) {
    uint8_t *copy = cleared(model_size + 4096);
    memcpy(copy, model, model_size);
    copy[place] = value;
    return copy;
}

static void write_file(const char *path, const void *data, size_t size, size_t before,
                       size_t behind) {
    FILE *file = fopen(path, "wb");
    if (!file)
        exit(3);
    void *zeros = cleared(before > behind ? before : behind);
    fwrite(zeros, 1, before, file);
    fwrite(data, 1, size, file);
    fwrite(zeros, 1, behind, file);
    fclose(file);
}

void walk_initialise(void) {
    CALL(rknn_init(NULL, model, model_size, 0, NULL), "rknn_init context NULL");
    try("model NULL, size 0", NULL, 0, NULL);
    try("model NULL, size of the file", NULL, model_size, NULL);
    try("path of no file", "/nonexistent.rknn", 0, NULL);
    try("path empty", "", 0, NULL);
    try("path of a directory", "/tmp", 0, NULL);
    write_file("empty.rknn", "", 0, 0, 0);
    try("path of an empty file", "empty.rknn", 0, NULL);
    try("4096 zeros", cleared(4096), 4096, NULL);
    try("the magic alone", "RKNN", 4, NULL);
    static const uint32_t sizes[] = {1, 8, 63, 64};
    for (size_t place = 0; place < sizeof sizes / sizeof *sizes; place++) {
        char what[32];
        snprintf(what, sizeof what, "the first %u bytes", sizes[place]);
        try(what, model, sizes[place], NULL);
    }
    try("half the file", model, model_size / 2, NULL);
    try("the file but for a byte", model, model_size - 1, NULL);
    try("the file and 4096 zeros", changed(0, *(uint8_t *)model), model_size + 4096, NULL);
    try("first byte wrong", changed(0, 'X'), model_size, NULL);
    try("version 99", changed(8, 99), model_size, NULL);
    try("path of the file", model_path, 0, NULL);
    uint8_t *odd = cleared(model_size + 8);
    memcpy(odd + 1, model, model_size);
    try("an odd address", odd + 1, model_size, NULL);
}

void walk_parts(void) {
    rknn_init_extend extend;
    memset(&extend, 0, sizeof extend);
    try("extend of zeros", model, model_size, &extend);
    try("path, extend of zeros", model_path, 0, &extend);
    extend.real_model_size = model_size;
    try("path, all of the file", model_path, 0, &extend);
    write_file("inner.rknn", model, model_size, 4096, 100);
    extend.real_model_offset = 4096;
    try("path, part of the file", "inner.rknn", 0, &extend);
    extend.real_model_size = 0;
    try("path, part of the file, size 0", "inner.rknn", 0, &extend);
    extend.real_model_size = model_size;
    extend.real_model_offset = 100;
    try("path, part at a wrong offset", "inner.rknn", 0, &extend);
    extend.real_model_offset = -1;
    try("path, part at offset -1", "inner.rknn", 0, &extend);
    extend.real_model_offset = 4096;
    extend.real_model_size = (int32_t)model_size + 4096;
    try("path, part longer than the file", "inner.rknn", 0, &extend);
}

static void use(rknn_context context, const char *what) {
    CALL(feed(context), "%s: rknn_inputs_set", what);
    CALL(rknn_run(context, NULL), "%s: rknn_run", what);
    note_sizes("RKNN_QUERY_MEM_SIZE", context);
    CALL(rknn_destroy(context), "%s: rknn_destroy", what);
}

static void share_weights(void) {
    rknn_context context = 0, first;
    rknn_init_extend extend;
    memset(&extend, 0, sizeof extend);
    CALL(rknn_init(&context, model, model_size, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend),
         "rknn_init SHARE_WEIGHT_MEM, extend->ctx 0");
    if (context)
        rknn_destroy(context);
    context = 0;
    first = opened(0);
    extend.ctx = first;
    CALL(rknn_init(&context, model, model_size, RKNN_FLAG_SHARE_WEIGHT_MEM, &extend),
         "rknn_init SHARE_WEIGHT_MEM, extend->ctx another's");
    if (context)
        use(context, "SHARE_WEIGHT_MEM");
    rknn_destroy(first);
}

void walk_flags(void) {
    /* Those that the header names, and three that it doesn't. */
    for (int bit = 0; bit < 32; bit += bit == 16 ? 14 : 1) {
        char what[32];
        uint32_t flags = 1u << bit;
        rknn_context context = 0;
        snprintf(what, sizeof what, "flags 0x%x", flags);
        CALL(rknn_init(&context, model, model_size, flags, NULL), "%s: rknn_init", what);
        if (context)
            use(context, what);
    }
    rknn_context context = 0;
    CALL(rknn_init(&context, model, model_size, 3, NULL), "flags 0x3: rknn_init");
    if (context)
        rknn_destroy(context);
    share_weights();
}
