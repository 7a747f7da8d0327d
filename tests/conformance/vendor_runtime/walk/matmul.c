/* Matrix products. */
#include "walk.h"

static rknn_matmul_info described(int m, int k, int n, int type, int b_layout, int ac_layout) {
    rknn_matmul_info info;
    memset(&info, 0, sizeof info);
    info.M = m;
    info.K = k;
    info.N = n;
    info.type = type;
    info.B_layout = (int16_t)b_layout;
    info.AC_layout = (int16_t)ac_layout;
    return info;
}

static void note_matrix(const rknn_matmul_tensor_attr *found) {
    char dims[RKNN_MAX_DIMS * 12] = "", *end = dims;
    for (uint32_t axis = 0; axis < found->n_dims && axis < RKNN_MAX_DIMS; axis++)
        end += sprintf(end, "%s%u", axis ? "x" : "", found->dims[axis]);
    note("name=%.20s n_dims=%u dims=%s size=%u type=%s", found->name, found->n_dims, dims,
         found->size, type_name(found->type));
}

static void multiply(rknn_matmul_ctx context, rknn_matmul_io_attr *found) {
    rknn_matmul_tensor_attr *matrices[] = {&found->A, &found->B, &found->C};
    static const char names[] = "ABC";
    for (int place = 0; place < 3; place++) {
        rknn_tensor_mem *memory = rknn_create_mem(context, matrices[place]->size);
        if (!memory)
            return;
        CALL(rknn_matmul_set_io_mem(context, memory, matrices[place]), "rknn_matmul_set_io_mem %c",
             names[place]);
    }
    CALL(rknn_matmul_run(context), "rknn_matmul_run");
}

void walk_matmul_kinds(void) {
    static const int kinds[][6] = {
        {4, 64, 32, 2, 0, 0},    {4, 64, 32, 2, 1, 1},   {4, 64, 32, 2, 1, 0},
        {4, 64, 32, 2, 0, 1},    {4, 64, 32, 1, 0, 0},   {4, 64, 32, 1, 1, 1},
        {1, 64, 32, 2, 0, 0},    {5, 64, 32, 2, 1, 1},   {4, 48, 32, 2, 0, 0},
        {4, 64, 16, 2, 0, 0},    {4, 48, 16, 1, 0, 0},   {4, 64, 8, 1, 0, 0},
        {4, 33, 32, 2, 0, 0},    {4, 64, 33, 2, 0, 0},   {0, 64, 32, 2, 0, 0},
        {4, 0, 32, 2, 0, 0},     {4, 64, 0, 2, 0, 0},    {-1, 64, 32, 2, 0, 0},
        {4, 64, 32, 0, 0, 0},    {4, 64, 32, 3, 0, 0},   {4, 64, 32, 4, 0, 0},
        {4, 64, 32, 6, 0, 0},    {4, 64, 32, 10, 0, 0},  {4, 64, 32, 99, 0, 0},
        {4, 64, 32, 2, 2, 0},    {4, 64, 32, 2, 0, 2},   {4, 4096, 4096, 1, 1, 1},
        {4, 4128, 32, 2, 0, 0},  {4, 8192, 32, 2, 0, 0}, {4, 10240, 32, 2, 0, 0},
        {4, 10272, 32, 1, 0, 0}, {4, 64, 8192, 2, 0, 0}, {1000, 64, 32, 2, 0, 0},
    };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const int *k = kinds[kind];
        rknn_matmul_info info = described(k[0], k[1], k[2], k[3], k[4], k[5]);
        rknn_matmul_io_attr found;
        rknn_matmul_ctx context = 0;
        memset(&found, 0, sizeof found);
        CALL(rknn_matmul_create(&context, &info, &found),
             "rknn_matmul_create M %d K %d N %d type %d, layouts %d %d", k[0], k[1], k[2], k[3],
             k[4], k[5]);
        if (!context)
            continue;
        note_matrix(&found.A);
        note_matrix(&found.B);
        note_matrix(&found.C);
        multiply(context, &found);
        CALL(rknn_matmul_destroy(context), "rknn_matmul_destroy");
    }
}

static void bind_matrices(rknn_matmul_ctx context, const rknn_matmul_io_attr *found) {
    rknn_tensor_mem *small = rknn_create_mem(context, 4), *large = rknn_create_mem(context, 65536);
    rknn_matmul_tensor_attr x = found->A, c = found->C;
    CALL(rknn_matmul_set_io_mem(context, NULL, &x), "rknn_matmul_set_io_mem, mem NULL");
    CALL(rknn_matmul_set_io_mem(context, large, NULL), "rknn_matmul_set_io_mem, attr NULL");
    CALL(rknn_matmul_set_io_mem(context, small, &x), "rknn_matmul_set_io_mem A, 4 bytes");
    CALL(rknn_matmul_set_io_mem(context, small, &c), "rknn_matmul_set_io_mem C, 4 bytes");
#define CHANGED(what, change)                                                                      \
    do {                                                                                           \
        x = found->A;                                                                              \
        change;                                                                                    \
        CALL(rknn_matmul_set_io_mem(context, large, &x), "rknn_matmul_set_io_mem A, " what);       \
    } while (0)
    CHANGED("name X", strcpy(x.name, "X"));
    CHANGED("type BOOL", x.type = RKNN_TENSOR_BOOL);
    CHANGED("dims[0] 3", x.dims[0] = 3);
    CHANGED("size 1", x.size = 1);
#undef CHANGED
}

void walk_matmul_memory(void) {
    static const int masks[] = {0, 1, 2, 3, 4, 5, 7, 8, 0xffff, -1};
    rknn_matmul_info info = described(4, 64, 32, 2, 0, 0);
    rknn_matmul_io_attr found;
    rknn_matmul_ctx context = 0;
    memset(&found, 0, sizeof found);
    CALL(rknn_matmul_create(NULL, &info, &found), "rknn_matmul_create, ctx NULL");
    CALL(rknn_matmul_create(&context, NULL, &found), "rknn_matmul_create, info NULL");
    CALL(rknn_matmul_create(&context, &info, NULL), "rknn_matmul_create, io_attr NULL");
    context = 0;
    CALL(rknn_matmul_create(&context, &info, &found), "rknn_matmul_create");
    CALL(rknn_matmul_run(context), "rknn_matmul_run before memory is set");
    bind_matrices(context, &found);
    for (size_t place = 0; place < sizeof masks / sizeof *masks; place++)
        CALL(rknn_matmul_set_core_mask(context, masks[place]), "rknn_matmul_set_core_mask 0x%x",
             masks[place]);
    CALL(rknn_matmul_destroy(context), "rknn_matmul_destroy");
}

void walk_matmul_handles(void) {
    rknn_matmul_info info = described(4, 64, 32, 2, 0, 0);
    rknn_matmul_io_attr found;
    rknn_matmul_ctx context = 0;
    rknn_sdk_version version;
    rknn_tensor_attr input;
    memset(&input, 0, sizeof input);
    CALL(rknn_matmul_destroy(0), "rknn_matmul_destroy of 0");
    CALL(rknn_matmul_run(0), "rknn_matmul_run of 0");
    rknn_matmul_create(&context, &info, &found);
    rknn_input_output_num number = {0, 0};
    CALL(rknn_query(context, RKNN_QUERY_IN_OUT_NUM, &number, sizeof number),
         "IN_OUT_NUM of a product's context");
    note("n_input=%u n_output=%u", number.n_input, number.n_output);
    CALL(rknn_query(context, RKNN_QUERY_SDK_VERSION, &version, sizeof version),
         "SDK_VERSION of a product's context");
    CALL(rknn_query(context, RKNN_QUERY_INPUT_ATTR, &input, sizeof input),
         "INPUT_ATTR of a product's context");
    CALL(rknn_run(context, NULL), "rknn_run of a product's context");
    CALL(rknn_destroy(context), "rknn_destroy of a product's context");
    CALL(rknn_matmul_run(opened(0)), "rknn_matmul_run of a model's context");
    CALL(rknn_matmul_destroy(opened(0)), "rknn_matmul_destroy of a model's context");
}
