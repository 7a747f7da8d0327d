/* What numbers become: inputs of each type and format, outputs likewise, one after another. */
#include "walk.h"

#define TYPES 10
#define FORMATS 4
#define FILLED 0x55

/* A half of few bits: exact, and enough. */
static uint16_t half(float number) {
    union {
        float number;
        uint32_t bits;
    } value = {number};
    uint32_t exponent = value.bits >> 23 & 255;
    uint32_t sign = value.bits >> 16 & 0x8000;
    return (uint16_t)(number == 0 ? sign
                                  : sign | (exponent - 112) << 10 | (value.bits >> 13 & 0x3ff));
}

static void store(void *to, size_t place, int type, int whole) {
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
        ((float *)to)[place] = (float)whole * .0625f;
        return;
    case RKNN_TENSOR_FLOAT16:
        ((uint16_t *)to)[place] = half((float)whole * .0625f);
        return;
    }
    switch (element_size(type)) {
    case 1:
        ((int8_t *)to)[place] = (int8_t)whole;
        return;
    case 2:
        ((int16_t *)to)[place] = (int16_t)whole;
        return;
    case 4:
        ((int32_t *)to)[place] = whole;
        return;
    default:
        ((int64_t *)to)[place] = whole;
    }
}

/* Whole numbers, the same ones in each layout; floats are sixteenths of them. */
static void fill(void *to, int type, int format, const rknn_tensor_attr *found, uint32_t seed) {
    int is_picture = found->n_dims == 4;
    uint32_t batch = is_picture ? found->dims[0] : 1, height = is_picture ? found->dims[1] : 1;
    uint32_t width = is_picture ? found->dims[2] : 1;
    uint32_t channels = is_picture ? found->dims[3] : found->n_elems;
    int is_unsigned =
        type == RKNN_TENSOR_UINT8 || type == RKNN_TENSOR_UINT16 || type == RKNN_TENSOR_UINT32;
    for (uint32_t b = 0; b < batch; b++)
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                for (uint32_t c = 0; c < channels; c++) {
                    uint32_t whole = (b * 31 + y * 7 + x * 3 + c * 11 + seed) % 101;
                    size_t planar = ((b * channels + c) * height + y) * width + x;
                    size_t packed = ((b * height + y) * width + x) * channels + c;
                    store(to, format == RKNN_TENSOR_NCHW ? planar : packed, type,
                          (int)whole - (is_unsigned ? 0 : 50));
                }
}

static void tell(const rknn_tensor_mem *memory, int is_run) {
    const uint8_t *bytes = memory->virt_addr;
    size_t end = LARGE / 4;
    while (end && bytes[end - 1] == FILLED)
        end--;
    if (!is_run)
        note("not run");
    else
        note("%zu bytes, hash %08" PRIx32, end, hash(bytes, end));
}

static void run_once(rknn_tensor_attr *input, rknn_tensor_attr *output, int input_type,
                     int input_format) {
    rknn_context context = opened(0);
    rknn_tensor_mem *from = rknn_create_mem(context, LARGE);
    rknn_tensor_mem *to = rknn_create_mem(context, LARGE);
    rknn_tensor_attr own = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    memset(from->virt_addr, 0, LARGE);
    memset(to->virt_addr, FILLED, LARGE);
    fill(from->virt_addr, input_type, input_format, &own, 0);
    int code = rknn_set_io_mem(context, from, input);
    code = code ? code : rknn_set_io_mem(context, to, output);
    answer(code ? code : rknn_run(context, NULL));
    tell(to, !code);
    rknn_destroy(context);
}

static void try_input(int query, const char *name, int type, int format, int pass) {
    rknn_context context = opened(0);
    rknn_tensor_attr input = attribute(context, query, 0);
    rknn_tensor_attr output = attribute(context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, 0);
    rknn_destroy(context);
    input.type = type;
    input.fmt = format;
    input.pass_through = (uint8_t)pass;
    if (announce("run, input %s %s %s, pass_through %d", name, type_name(type),
                 format_name(format), pass))
        run_once(&input, &output, type, format);
}

void walk_input_values(void) {
    for (int pass = 0; pass < 2; pass++)
        for (int type = 0; type < TYPES; type++)
            for (int format = 0; format < FORMATS; format++) {
                try_input(RKNN_QUERY_INPUT_ATTR, "INPUT_ATTR", type, format, pass);
                try_input(RKNN_QUERY_NATIVE_INPUT_ATTR, "NATIVE_INPUT_ATTR", type, format, pass);
            }
}

static void try_output(int query, const char *name, int type, int format) {
    rknn_context context = opened(0);
    rknn_tensor_attr input = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    rknn_tensor_attr output = attribute(context, query, 0);
    rknn_destroy(context);
    input.type = RKNN_TENSOR_FLOAT32;
    output.type = type;
    output.fmt = format;
    if (announce("run, output %s %s %s", name, type_name(type), format_name(format)))
        run_once(&input, &output, RKNN_TENSOR_FLOAT32, RKNN_TENSOR_NHWC);
}

void walk_output_values(void) {
    for (int type = 0; type < TYPES; type++)
        for (int format = 0; format < FORMATS; format++) {
            try_output(RKNN_QUERY_OUTPUT_ATTR, "OUTPUT_ATTR", type, format);
            try_output(RKNN_QUERY_NATIVE_OUTPUT_ATTR, "NATIVE_OUTPUT_ATTR", type, format);
        }
}

/* --------------------------------------------------------------------------------- sequences */

static const struct {
    int type, pass_through;
} kinds[] = {{RKNN_TENSOR_UINT8, 0},
             {RKNN_TENSOR_FLOAT32, 0},
             {RKNN_TENSOR_INT8, 1},
             {RKNN_TENSOR_UINT8, 0}};

static void set_and_get(rknn_context context, size_t kind, const char *what) {
    int type = kinds[kind].type;
    rknn_tensor_attr found = attribute(context, RKNN_QUERY_INPUT_ATTR, 0);
    rknn_input input;
    rknn_output output;
    memset(&input, 0, sizeof input);
    memset(&output, 0, sizeof output);
    input.type = type;
    input.fmt = RKNN_TENSOR_NHWC;
    input.pass_through = (uint8_t)kinds[kind].pass_through;
    input.size = found.n_elems * element_size(type);
    input.buf = cleared(input.size);
    fill(input.buf, type, RKNN_TENSOR_NHWC, &found, (uint32_t)kind * 7);
    CALL(rknn_inputs_set(context, 1, &input), "rknn_inputs_set %s, pass_through %d, %s",
         type_name(type), kinds[kind].pass_through, what);
    CALL(rknn_run(context, NULL), "rknn_run %s, pass_through %d, %s", type_name(type),
         kinds[kind].pass_through, what);
    rknn_outputs_get(context, 1, &output, NULL);
    note("%u bytes, hash %08" PRIx32, output.size, hash(output.buf, output.size));
    rknn_outputs_release(context, 1, &output);
    free(input.buf);
}

void walk_sequences(void) {
    rknn_context kept = opened(0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        rknn_context fresh = opened(0);
        set_and_get(fresh, kind, "a context of its own");
        rknn_destroy(fresh);
        set_and_get(kept, kind, "one context");
    }
    rknn_destroy(kept);
}

/* ------------------------------------------------------------------------------------ places */

static void set_places(rknn_context context, const char *what, uint32_t count,
                       const uint32_t *indices, const uint32_t *seeds) {
    rknn_input inputs[MOST_TENSORS];
    rknn_output output;
    fill_inputs(context, inputs);
    memset(&output, 0, sizeof output);
    for (uint32_t place = 0; place < count; place++) {
        rknn_tensor_attr found = attribute(context, RKNN_QUERY_INPUT_ATTR, place);
        inputs[place].index = indices[place];
        fill(inputs[place].buf, RKNN_TENSOR_FLOAT32, (int)found.fmt, &found, seeds[place]);
    }
    CALL(rknn_inputs_set(context, count, inputs), "rknn_inputs_set, %s", what);
    CALL(rknn_run(context, NULL), "rknn_run, %s", what);
    rknn_outputs_get(context, 1, &output, NULL);
    note("hash %08" PRIx32, hash(output.buf, output.size));
    rknn_outputs_release(context, 1, &output);
}

static void get_places(rknn_context context, const char *what, const uint32_t *indices,
                       uint32_t number) {
    rknn_output outputs[MOST_TENSORS];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t place = 0; place < number; place++)
        outputs[place].index = indices[place];
    CALL(rknn_outputs_get(context, number, outputs, NULL), "rknn_outputs_get, %s", what);
    for (uint32_t place = 0; place < number; place++)
        note("place=%u index=%u size=%u hash=%08" PRIx32, place, outputs[place].index,
             outputs[place].size, hash(outputs[place].buf, outputs[place].size));
    rknn_outputs_release(context, number, outputs);
}

void walk_places(void) {
    static const uint32_t forward[] = {0, 1, 2}, backward[] = {2, 1, 0}, swapped[] = {1, 0};
    static const uint32_t zeros[] = {0, 0, 0}, seeds[] = {1, 2};
    rknn_context context = opened(0);
    rknn_input_output_num number = counts(context);
    if (number.n_input == 2) {
        set_places(context, "in order", 2, forward, seeds);
        set_places(context, "indices swapped", 2, swapped, seeds);
        set_places(context, "both indices 0", 2, zeros, seeds);
    } else
        feed(context);
    CALL(rknn_run(context, NULL), "rknn_run");
    if (number.n_output == 3) {
        get_places(context, "in order", forward, 3);
        get_places(context, "from the last", backward, 3);
        get_places(context, "the last alone", backward, 1);
    }
    rknn_destroy(context);
}
