/* rknn_inputs_set and rknn_outputs_get: counts, sizes, types, formats. */
#include "walk.h"

#define TYPES 13
#define FORMATS 5

static rknn_context context;
static rknn_tensor_attr first;
static rknn_input inputs[MOST_TENSORS];
static uint32_t number;

static void renew(void) {
    void *kept[MOST_TENSORS] = {0};
    for (uint32_t index = 0; index < number; index++)
        kept[index] = inputs[index].buf;
    fill_inputs(context, inputs);
    for (uint32_t index = 0; index < number; index++)
        free(kept[index]);
}

static int set(uint32_t count) { return rknn_inputs_set(context, count, inputs); }

static void set_counts(void) {
    CALL(set(0), "rknn_inputs_set, none");
    CALL(rknn_inputs_set(context, number, NULL), "rknn_inputs_set NULL");
    CALL(set(number + 1), "rknn_inputs_set, n_input+1");
    CALL(set(99), "rknn_inputs_set, 99");
    if (number > 1) {
        CALL(set(1), "rknn_inputs_set, the first alone");
        CALL(rknn_inputs_set(context, 1, inputs + 1), "rknn_inputs_set, the second alone");
        inputs[1].index = 0;
        CALL(set(number), "rknn_inputs_set, two with index 0");
    }
    renew();
    inputs[0].index = number;
    CALL(set(number), "rknn_inputs_set, index n_input");
    inputs[0].index = UINT32_MAX;
    CALL(set(number), "rknn_inputs_set, index -1");
}

static void set_sizes(void) {
    uint32_t right = first.n_elems * 4;
    const struct {
        uint32_t size;
        const char *name;
    } sizes[] = {{0, "0"},
                 {right - 1, "right-1"},
                 {right + 1, "right+1"},
                 {2 * right, "right*2"},
                 {first.n_elems, "n_elems"}};
    for (size_t place = 0; place < sizeof sizes / sizeof *sizes; place++) {
        renew();
        inputs[0].size = sizes[place].size;
        CALL(set(number), "rknn_inputs_set FLOAT32, size %s", sizes[place].name);
    }
    renew();
    void *kept = inputs[0].buf;
    inputs[0].buf = NULL;
    CALL(set(number), "rknn_inputs_set, buf NULL");
    inputs[0].buf = kept;
}

static void set_as(int type, int format, int pass_through, int distance, const char *size) {
    renew();
    inputs[0].type = type;
    inputs[0].fmt = format;
    inputs[0].pass_through = (uint8_t)pass_through;
    inputs[0].size = first.n_elems * element_size(type) + (uint32_t)distance;
    CALL(set(number), "rknn_inputs_set %s %s, pass_through %d, size %s", type_name(type),
         format_name(format), pass_through, size);
}

void walk_inputs(void) {
    context = opened(0);
    number = counts(context).n_input;
    first = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    fill_inputs(context, inputs);
    set_counts();
    set_sizes();
    for (int pass = 0; pass < 2; pass++)
        for (int type = -1; type < TYPES; type++)
            for (int format = 0; format < (type < 0 || type > 9 ? 1 : FORMATS); format++)
                set_as(type, format, pass, 0, "right");
    set_as(RKNN_TENSOR_INT8, RKNN_TENSOR_NCHW, 2, 0, "right");
    set_as(RKNN_TENSOR_FLOAT32, -1, 0, 0, "right");
    for (int type = 0; type < 10; type++)
        set_as(type, (int)first.fmt, 0, -1, "right-1");
    for (int type = 0; type < 4; type++) {
        int bytes = (int)(first.n_elems * element_size(type));
        set_as(type, (int)first.fmt, 1, (int)first.size - bytes, "attr.size");
        set_as(type, (int)first.fmt, 1, (int)first.size_with_stride - bytes, "size_with_stride");
        set_as(type, (int)first.fmt, 1, (int)first.size - 1 - bytes, "attr.size-1");
    }
    CALL(rknn_destroy(context), "rknn_destroy");
}

/* --------------------------------------------------------------------------------- outputs */

static rknn_output outputs[100];

static void clear(uint32_t count) {
    memset(outputs, 0, sizeof outputs);
    for (uint32_t index = 0; index < 100; index++)
        outputs[index].index = index < count ? index : 0;
}

static int get(uint32_t count) { return rknn_outputs_get(context, count, outputs, NULL); }

static void get_counts(uint32_t count) {
    clear(count);
    CALL(get(0), "rknn_outputs_get, none");
    CALL(rknn_outputs_get(context, count, NULL, NULL), "rknn_outputs_get NULL");
    CALL(get(count + 1), "rknn_outputs_get, n_output+1");
    clear(count);
    CALL(get(99), "rknn_outputs_get, 99");
    if (count > 1) {
        clear(count);
        CALL(get(1), "rknn_outputs_get, the first alone");
        clear(count);
        CALL(rknn_outputs_get(context, 1, outputs + 1, NULL), "rknn_outputs_get, the second alone");
        note("index %u", outputs[1].index);
        clear(count);
        outputs[1].index = 0;
        CALL(get(count), "rknn_outputs_get, two with index 0");
        note("sizes %u %u", outputs[0].size, outputs[1].size);
        note("indices %u %u", outputs[0].index, outputs[1].index);
    }
    static const uint32_t wrong[] = {99, UINT32_MAX};
    for (int place = 0; place < 2; place++) {
        clear(count);
        outputs[0].index = wrong[place];
        CALL(get(count), "rknn_outputs_get, index %d", (int)wrong[place]);
        note("index %d", (int)outputs[0].index);
        note("size %u", outputs[0].size);
        note("buf is %s", presence(outputs[0].buf));
    }
}

static void get_allocated(uint32_t count, int want_float, void *buffer, uint32_t size,
                          const char *what) {
    clear(count);
    outputs[0].want_float = (uint8_t)want_float;
    outputs[0].is_prealloc = 1;
    outputs[0].buf = buffer;
    outputs[0].size = size;
    CALL(get(count), "rknn_outputs_get, want_float %d, is_prealloc, %s", want_float, what);
    note("size is %s", outputs[0].size == size ? "left" : "changed");
    note("buf is %s", outputs[0].buf == buffer ? "left" : "changed");
}

static void get_floats(uint32_t count, const rknn_tensor_attr *found, int want_float) {
    char *buffer = cleared(LARGE);
    uint32_t right = found->n_elems * (want_float ? 4 : element_size(found->type));
    clear(count);
    outputs[0].want_float = (uint8_t)want_float;
    CALL(get(count), "rknn_outputs_get, want_float %d", want_float);
    note("size=%u index=%u is_prealloc=%u", outputs[0].size, outputs[0].index,
         outputs[0].is_prealloc);
    note("buf is %s", presence(outputs[0].buf));
    rknn_outputs_release(context, count, outputs);
    get_allocated(count, want_float, NULL, 0, "buf NULL, size 0");
    get_allocated(count, want_float, NULL, right, "buf NULL");
    get_allocated(count, want_float, buffer, 0, "size 0");
    get_allocated(count, want_float, buffer, right - 1, "size right-1");
    get_allocated(count, want_float, buffer, right, "size right");
    get_allocated(count, want_float, buffer, right + 1, "size right+1");
    get_allocated(count, want_float, buffer, right + 64, "size right+64");
    get_allocated(count, want_float, buffer + 1, right, "an odd address");
}

void walk_outputs(void) {
    context = opened(0);
    uint32_t count = counts(context).n_output;
    rknn_tensor_attr found = attribute(context, RKNN_QUERY_OUTPUT_ATTR, 0);
    rknn_output_extend extend = {.frame_id = 77};
    feed(context);
    rknn_run(context, NULL);
    get_counts(count);
    for (int want_float = 0; want_float < 3; want_float++)
        get_floats(count, &found, want_float);
    clear(count);
    CALL(rknn_outputs_get(context, count, outputs, &extend), "rknn_outputs_get, extend");
    note("frame_id %" PRIu64, extend.frame_id);
    CALL(rknn_destroy(context), "rknn_destroy");
}
