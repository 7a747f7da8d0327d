/* The walk's frame: sections, labels, and what all of them use. */
#include "walk.h"

#include <setjmp.h>
#include <stdarg.h>

const char *model_path;
void *model;
uint32_t model_size;

static jmp_buf next_model;
static int next_number;
static const char *left_out;

static const struct {
    const char *name;
    void (*walk)(void);
} sections[] = {
    {"initialise", walk_initialise},
#ifndef SMALL_RUNTIME /* librknnmrt has fewer functions */
    {"parts", walk_parts},
    {"flags", walk_flags},
    {"queries", walk_queries},
    {"query_indices", walk_query_indices},
    {"attributes", walk_attributes},
    {"order", walk_order},
    {"release", walk_release},
    {"inputs", walk_inputs},
    {"outputs", walk_outputs},
    {"memory", walk_memory},
    {"foreign_memory", walk_foreign_memory},
    {"memory_ends", walk_memory_ends},
    {"binding", walk_binding},
    {"binding_types", walk_binding_types},
    {"zero_copy", walk_zero_copy},
    {"outputs_alone", walk_outputs_alone},
    {"input_values", walk_input_values},
    {"output_values", walk_output_values},
    {"sequences", walk_sequences},
    {"places", walk_places},
    {"cores", walk_cores},
    {"duplicates", walk_duplicates},
    {"outside_memory", walk_outside_memory},
    {"internal_outside", walk_internal_outside},
    {"information_only", walk_information_only},
    {"runs", walk_runs},
    {"profile", walk_profile},
    {"shapes", walk_shapes},
    {"shapes_unset", walk_shapes_unset},
    {"matmul_kinds", walk_matmul_kinds},
    {"matmul_memory", walk_matmul_memory},
    {"matmul_handles", walk_matmul_handles},
    {"destroyed", walk_destroyed},
    {"no_handle", walk_no_handle},
    {"wild_handle", walk_wild_handle},
#endif
};

static int is_left_out(int number) {
    for (const char *at = left_out; *at; at += strspn(at, ",")) {
        char *end;
        if (strtol(at, &end, 10) == number)
            return 1;
        at = end > at ? end : at + 1;
    }
    return 0;
}

int announce(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("\n@call %d ", next_number);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    return !is_left_out(next_number++);
}

void answer(long value) {
    printf("\n@answer %ld\n", value);
    fflush(stdout);
}

void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("\n@note ");
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* ------------------------------------------------------------------------------- what is used */

void *cleared(size_t size) {
    void *memory = calloc(1, size + 64);
    if (!memory)
        exit(3);
    return memory;
}

rknn_context opened(uint32_t flags) {
    rknn_context context = 0;
    int code = rknn_init(&context, model, model_size, flags, NULL);
    if (code) {
        note("rknn_init with flags 0x%x gives %d", flags, code);
        longjmp(next_model, 1);
    }
    return context;
}

rknn_input_output_num counts(rknn_context context) {
    rknn_input_output_num found = {0, 0};
    rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &found, sizeof found);
    return found;
}

rknn_tensor_attr attribute(rknn_context context, int query, uint32_t index) {
    rknn_tensor_attr found;
    memset(&found, 0, sizeof found);
    found.index = index;
    rknn_query(context, query, &found, sizeof found);
    return found;
}

uint32_t element_size(int type) {
    static const uint32_t sizes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 1};
    return type >= 0 && type < 10 ? sizes[type] : 1;
}

void fill_inputs(rknn_context context, rknn_input inputs[MOST_TENSORS]) {
    memset(inputs, 0, MOST_TENSORS * sizeof *inputs);
    rknn_input_output_num number = counts(context);
    for (uint32_t index = 0; index < number.n_input && index < MOST_TENSORS; index++) {
        rknn_tensor_attr found = attribute(context, RKNN_QUERY_INPUT_ATTR, index);
        inputs[index].index = index;
        inputs[index].type = RKNN_TENSOR_FLOAT32;
        inputs[index].fmt = found.fmt;
        inputs[index].size = found.n_elems * 4;
        /* What is too large in a test is to be read all the same. */
        inputs[index].buf = cleared(4 * LARGE);
    }
}

void fill_outputs(rknn_context context, rknn_output outputs[MOST_TENSORS]) {
    memset(outputs, 0, MOST_TENSORS * sizeof *outputs);
    rknn_input_output_num number = counts(context);
    for (uint32_t index = 0; index < number.n_output && index < MOST_TENSORS; index++)
        outputs[index].index = index;
}

int feed(rknn_context context) {
    rknn_input inputs[MOST_TENSORS];
    fill_inputs(context, inputs);
    return rknn_inputs_set(context, counts(context).n_input, inputs);
}

/* ------------------------------------------------------------------------------ what is told */

const char *type_name(int type) {
    static const char *const names[] = {"FLOAT32", "FLOAT16", "INT8",   "UINT8", "INT16",
                                        "UINT16",  "INT32",   "UINT32", "INT64", "BOOL"};
    static char other[16];
    if (type >= 0 && type < 10)
        return names[type];
    snprintf(other, sizeof other, "type%d", type);
    return other;
}

const char *format_name(int format) {
    static const char *const names[] = {"NCHW", "NHWC", "NC1HWC2", "UNDEFINED"};
    static char other[16];
    if (format >= 0 && format < 4)
        return names[format];
    snprintf(other, sizeof other, "format%d", format);
    return other;
}

const char *presence(const void *pointer) { return pointer ? "set" : "NULL"; }

static void print_dims(char *text, const rknn_tensor_attr *found) {
    for (uint32_t axis = 0; axis < RKNN_MAX_DIMS; axis++)
        if (axis < found->n_dims || found->dims[axis])
            text += sprintf(text, "%s%u", axis ? "x" : "", found->dims[axis]);
}

void note_attribute(const char *what, const rknn_tensor_attr *found) {
    char dims[RKNN_MAX_DIMS * 12] = "";
    print_dims(dims, found);
    note("%s: index=%u name=%.60s n_dims=%u dims=%s n_elems=%u size=%u fmt=%s type=%s qnt_type=%d "
         "fl=%d zp=%d scale=%.7g w_stride=%u size_with_stride=%u pass_through=%u h_stride=%u",
         what, found->index, found->name, found->n_dims, dims, found->n_elems, found->size,
         format_name(found->fmt), type_name(found->type), found->qnt_type, found->fl, found->zp,
         (double)found->scale, found->w_stride, found->size_with_stride, found->pass_through,
         found->h_stride);
}

static const char *address_kind(uint64_t address) {
    return !address ? "0" : address == UINT64_MAX ? "-1" : address & 4095 ? "unaligned" : "a page";
}

void note_memory(const char *what, const rknn_tensor_mem *memory) {
    if (!memory) {
        note("%s: NULL", what);
        return;
    }
    note("%s: virt_addr=%s phys_addr=%s fd=%s offset=%d size=%u flags=%u priv_data=%s", what,
         address_kind((uintptr_t)memory->virt_addr), address_kind(memory->phys_addr),
         memory->fd < 0 ? "-1" : memory->fd ? "positive" : "0", memory->offset, memory->size,
         memory->flags, presence(memory->priv_data));
}

void note_sizes(const char *what, rknn_context context) {
    rknn_mem_size sizes;
    memset(&sizes, 0, sizeof sizes);
    rknn_query(context, RKNN_QUERY_MEM_SIZE, &sizes, sizeof sizes);
    note("%s: weight=%u internal=%u dma=%" PRIu64 " sram=%u free=%u", what,
         sizes.total_weight_size, sizes.total_internal_size, sizes.total_dma_allocated_size,
         sizes.total_sram_size, sizes.free_sram_size);
}

uint32_t hash(const void *bytes, size_t size) {
    const uint8_t *byte = bytes;
    uint32_t sum = 2166136261u;
    for (size_t place = 0; place < size; place++)
        sum = (sum ^ byte[place]) * 16777619u;
    return sum;
}

static void read_model(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(3);
    model_size = (uint32_t)ftell(file);
    rewind(file);
    model = cleared(model_size);
    model_path = path;
    if (fread(model, 1, model_size, file) != model_size)
        exit(3);
    fclose(file);
}

static void (*find_section(const char *name))(void) {
    for (size_t place = 0; place < sizeof sections / sizeof *sections; place++)
        if (!strcmp(sections[place].name, name))
            return sections[place].walk;
    return NULL;
}

int main(int count, char **arguments) {
    void (*walk)(void) = count > 3 ? find_section(arguments[1]) : NULL;
    if (!walk)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    left_out = arguments[2];
    for (volatile int place = 3; place < count; place++) {
        read_model(arguments[place]);
        printf("\n@model %s\n", model_path);
        if (!setjmp(next_model))
            walk();
    }
    printf("\n@end\n");
    return 0;
}
