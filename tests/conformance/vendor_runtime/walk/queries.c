/* rknn_query: sizes, indices, what is filled in and what is left. */
#include "walk.h"

static const struct {
    int command;
    const char *name;
    uint32_t size;
} queries[] = {
    {RKNN_QUERY_IN_OUT_NUM, "IN_OUT_NUM", sizeof(rknn_input_output_num)},
    {RKNN_QUERY_INPUT_ATTR, "INPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_OUTPUT_ATTR, "OUTPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_PERF_DETAIL, "PERF_DETAIL", sizeof(rknn_perf_detail)},
    {RKNN_QUERY_PERF_RUN, "PERF_RUN", sizeof(rknn_perf_run)},
    {RKNN_QUERY_SDK_VERSION, "SDK_VERSION", sizeof(rknn_sdk_version)},
    {RKNN_QUERY_MEM_SIZE, "MEM_SIZE", sizeof(rknn_mem_size)},
    {RKNN_QUERY_CUSTOM_STRING, "CUSTOM_STRING", sizeof(rknn_custom_string)},
    {RKNN_QUERY_NATIVE_INPUT_ATTR, "NATIVE_INPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_NATIVE_OUTPUT_ATTR, "NATIVE_OUTPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR, "NATIVE_NHWC_INPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR, "NATIVE_NHWC_OUTPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_DEVICE_MEM_INFO, "DEVICE_MEM_INFO", 64},
    {RKNN_QUERY_INPUT_DYNAMIC_RANGE, "INPUT_DYNAMIC_RANGE", sizeof(rknn_input_range)},
    {RKNN_QUERY_CURRENT_INPUT_ATTR, "CURRENT_INPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_CURRENT_OUTPUT_ATTR, "CURRENT_OUTPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, "CURRENT_NATIVE_INPUT_ATTR", sizeof(rknn_tensor_attr)},
    {RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR, "CURRENT_NATIVE_OUTPUT_ATTR",
     sizeof(rknn_tensor_attr)},
    {18, "18", sizeof(rknn_tensor_attr)},
    {-1, "-1", sizeof(rknn_tensor_attr)},
    {1000, "1000", sizeof(rknn_tensor_attr)},
};
#define QUERIES (sizeof queries / sizeof *queries)
#define SPACE 65536

void walk_queries(void) {
    static const struct {
        int distance;
        const char *name;
    } sizes[] = {{-8, "size-8"}, {-4, "size-4"}, {-1, "size-1"},
                 {0, "size"},    {1, "size+1"},  {64, "size+64"}};
    rknn_context context = opened(0);
    for (size_t query = 0; query < QUERIES; query++) {
        void *space = cleared(SPACE);
        const char *name = queries[query].name;
        for (uint32_t size = 0; size < 2; size++)
            CALL(rknn_query(context, queries[query].command, space, size),
                 "rknn_query %s, info_len %u", name, size);
        for (size_t place = 0; place < sizeof sizes / sizeof *sizes; place++) {
            uint32_t size = queries[query].size + (uint32_t)sizes[place].distance;
            memset(space, 0, SPACE);
            CALL(rknn_query(context, queries[query].command, space, size),
                 "rknn_query %s, info_len %s", name, sizes[place].name);
        }
        CALL(rknn_query(context, queries[query].command, NULL, queries[query].size),
             "rknn_query %s, info NULL", name);
        free(space);
    }
}

static int has_index(int command) {
    return command != RKNN_QUERY_IN_OUT_NUM && command != RKNN_QUERY_PERF_DETAIL &&
           command != RKNN_QUERY_PERF_RUN && command != RKNN_QUERY_SDK_VERSION &&
           command != RKNN_QUERY_MEM_SIZE && command != RKNN_QUERY_CUSTOM_STRING &&
           command != RKNN_QUERY_DEVICE_MEM_INFO && command >= 0 && command < 18;
}

static void fill_over(rknn_context context, int command, const char *name) {
    rknn_tensor_attr found;
    memset(&found, 0xaa, sizeof found);
    found.index = 0;
    CALL(rknn_query(context, command, &found, sizeof found), "rknn_query %s into bytes 0xaa", name);
    uint8_t last = (uint8_t)found.name[RKNN_MAX_NAME_LEN - 1];
    note("dims behind the last are %s", found.dims[RKNN_MAX_DIMS - 1] ? "left" : "zero");
    note("the end of the name is %s", last == 0xaa ? "left" : last ? "other" : "zero");
    note("pass_through is %u", found.pass_through);
}

void walk_query_indices(void) {
    rknn_context context = opened(0);
    rknn_input_output_num number = counts(context);
    const struct {
        uint32_t index;
        const char *name;
    } wrong[] = {{number.n_input, "n_input"},
                 {number.n_output, "n_output"},
                 {99, "99"},
                 {UINT32_MAX, "-1"}};
    for (size_t query = 0; query < QUERIES; query++)
        for (size_t place = 0; has_index(queries[query].command) && place < 4; place++) {
            uint32_t *space = cleared(SPACE);
            *space = wrong[place].index;
            CALL(rknn_query(context, queries[query].command, space, queries[query].size),
                 "rknn_query %s, index %s", queries[query].name, wrong[place].name);
            free(space);
        }
    fill_over(context, RKNN_QUERY_INPUT_ATTR, "INPUT_ATTR");
    fill_over(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, "NATIVE_OUTPUT_ATTR");
}

static void query_all(rknn_context context, uint32_t number, const int *commands) {
    for (uint32_t index = 0; index < number; index++)
        for (int place = 0; commands[place] >= 0; place++) {
            rknn_tensor_attr found;
            int code = -1;
            memset(&found, 0, sizeof found);
            found.index = index;
            if (!announce("%s[%u]", queries[commands[place]].name, index))
                continue;
            code = rknn_query(context, commands[place], &found, sizeof found);
            answer(code);
            if (!code)
                note_attribute(queries[commands[place]].name, &found);
        }
}

static void query_range(rknn_context context) {
    rknn_input_range *range = cleared(sizeof *range);
    int code = -1;
    if (!announce("INPUT_DYNAMIC_RANGE"))
        return;
    code = rknn_query(context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range);
    answer(code);
    if (code)
        return;
    note("range: index=%u shape_number=%u fmt=%s name=%s n_dims=%u", range->index,
         range->shape_number, format_name(range->fmt), range->name, range->n_dims);
    for (uint32_t shape = 0; shape < range->shape_number && shape < 8; shape++)
        note("shape %u: dims=%ux%ux%ux%u", shape, range->dyn_range[shape][0], range->dyn_range[shape][1],
             range->dyn_range[shape][2], range->dyn_range[shape][3]);
}

void walk_attributes(void) {
    static const int inputs[] = {RKNN_QUERY_INPUT_ATTR,         RKNN_QUERY_NATIVE_INPUT_ATTR,
                                 RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR,
                                 RKNN_QUERY_CURRENT_INPUT_ATTR, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR,
                                 -1};
    static const int outputs[] = {RKNN_QUERY_OUTPUT_ATTR,         RKNN_QUERY_NATIVE_OUTPUT_ATTR,
                                  RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR,
                                  RKNN_QUERY_CURRENT_OUTPUT_ATTR,
                                  RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR,
                                  -1};
    rknn_context context = 0;
    CALL(rknn_init(&context, model, model_size, 0, NULL), "rknn_init");
    if (!context)
        return;
    rknn_input_output_num number = counts(context);
    note("counts: n_input=%u n_output=%u", number.n_input, number.n_output);
    query_all(context, number.n_input, inputs);
    query_all(context, number.n_output, outputs);
    note_sizes("MEM_SIZE", context);
    rknn_custom_string *text = cleared(sizeof *text);
    CALL(rknn_query(context, RKNN_QUERY_CUSTOM_STRING, text, sizeof *text), "CUSTOM_STRING");
    note("custom: string=%.100s", text->string);
    query_range(context);
    rknn_destroy(context);
}
