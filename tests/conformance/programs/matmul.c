/* Matrix products of three types, in every layout, against sums made here.
 *
 *     matmul
 */
#include "program.h"

enum { M = 5, K = 96, N = 128, OTHER_M = 2 };

static int8_t a[M * K], b[K * N];

/* Small whole numbers: every type holds them, and float16 sums of them are exact. */
static void fill(int8_t *values, int count, unsigned seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (int8_t)(seed >> 28) - 8;
    }
}

static uint16_t half(int value) {
    uint16_t sign = value < 0 ? 0x8000 : 0, magnitude = (uint16_t)abs(value), exponent = 25;
    if (!magnitude)
        return 0;
    while (magnitude < 0x400) {
        magnitude = (uint16_t)(magnitude << 1);
        exponent--;
    }
    return (uint16_t)(sign | exponent << 10 | (magnitude & 0x3ff));
}

/* Writes one value as a matrix's element type has it. */
static void put(void *target, rknn_tensor_type type, int place, int value) {
    uint8_t *bytes = target;
    if (type == RKNN_TENSOR_INT8)
        bytes[place] = (uint8_t)value;
    else if (type == RKNN_TENSOR_FLOAT16)
        ((uint16_t *)target)[place] = half(value);
    else if (place % 2)
        bytes[place / 2] = (uint8_t)(bytes[place / 2] | value << 4);
    else
        bytes[place / 2] = value & 15;
}

static int number_at(const void *source, rknn_tensor_type type, uint32_t place) {
    if (type == RKNN_TENSOR_INT32)
        return ((const int32_t *)source)[place];
    if (type == RKNN_TENSOR_INT16)
        return ((const int16_t *)source)[place];
    return (int)((const float *)source)[place];
}

static void write_a(const rknn_tensor_mem *mem, const rknn_matmul_tensor_attr *attr, int rows) {
    uint32_t block = attr->n_dims == 3 ? attr->dims[2] : K;
    for (uint32_t k = 0; k < K; k++)
        for (int m = 0; m < rows; m++) {
            int place = (int)((k / block * (uint32_t)rows + (uint32_t)m) * block + k % block);
            /* In order, so that the second of two int4 finds the first. */
            if (attr->type != RKNN_TENSOR_INT4)
                put(mem->virt_addr, attr->type, place, a[m * K + (int)k]);
        }
    if (attr->type != RKNN_TENSOR_INT4)
        return;
    for (uint32_t place = 0; place < (uint32_t)rows * K; place++) {
        uint32_t k = place / block / (uint32_t)rows * block + place % block;
        put(mem->virt_addr, attr->type, (int)place, a[place / block % (uint32_t)rows * K + k]);
    }
}

static void write_b(const rknn_tensor_mem *mem, rknn_tensor_type type, rknn_matmul_info *info) {
    uint16_t rows[K * N];
    void *target = info->B_layout == RKNN_MM_LAYOUT_NATIVE ? (void *)rows : mem->virt_addr;
    int is_transposed = info->B_layout == RKNN_MM_LAYOUT_TP_NORM;
    for (int place = 0; place < K * N; place++)
        put(target, type, place, is_transposed ? b[place % K * N + place / K] : b[place]);
    if (target == rows)
        REQUIRE(!rknn_B_normal_layout_to_native_layout(rows, mem->virt_addr, K, N, info));
}

static void check(const rknn_tensor_mem *mem, const rknn_matmul_tensor_attr *attr, int rows) {
    uint32_t block = attr->n_dims == 3 ? attr->dims[2] : N;
    for (uint32_t n = 0; n < N; n++)
        for (int m = 0; m < rows; m++) {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += a[m * K + k] * b[k * N + (int)n];
            uint32_t place = (n / block * (uint32_t)rows + (uint32_t)m) * block + n % block;
            REQUIRE(number_at(mem->virt_addr, attr->type, place) == sum);
        }
}

/* Two shapes, one after the other, on the same B. */
static void multiply(rknn_matmul_info *info) {
    rknn_matmul_shape shapes[] = {{M, K, N}, {OTHER_M, K, N}};
    rknn_matmul_io_attr attrs[2] = {0};
    rknn_matmul_ctx context;
    REQUIRE(!rknn_matmul_create_dynamic_shape(&context, info, 2, shapes, attrs));
    rknn_tensor_mem *mems[] = {rknn_create_mem(context, attrs[0].A.size),
                               rknn_create_mem(context, attrs[0].B.size),
                               rknn_create_mem(context, attrs[0].C.size)};
    REQUIRE(mems[0] && mems[1] && mems[2]);
    REQUIRE(!rknn_matmul_set_core_mask(context, RKNN_NPU_CORE_1));
    REQUIRE(rknn_matmul_set_core_mask(context, RKNN_NPU_CORE_0_1) == RKNN_ERR_FAIL);
    REQUIRE(rknn_matmul_run(context) == RKNN_ERR_INPUT_INVALID);
    write_b(mems[1], attrs[0].B.type, info);
    REQUIRE(!rknn_matmul_set_io_mem(context, mems[1], &attrs[0].B));
    for (int i = 0; i < 2; i++) {
        REQUIRE(!rknn_matmul_set_dynamic_shape(context, &shapes[i]));
        write_a(mems[0], &attrs[i].A, shapes[i].M);
        REQUIRE(!rknn_matmul_set_io_mem(context, mems[0], &attrs[i].A));
        REQUIRE(!rknn_matmul_set_io_mem(context, mems[2], &attrs[i].C));
        REQUIRE(!rknn_matmul_run(context));
        check(mems[2], &attrs[i].C, shapes[i].M);
    }
    for (int i = 0; i < 3; i++)
        REQUIRE(!rknn_destroy_mem(context, mems[i]));
    REQUIRE(!rknn_matmul_destroy(context));
    REQUIRE(rknn_matmul_run(context) == RKNN_ERR_CTX_INVALID);
}

int main(void) {
    const rknn_matmul_type types[] = {RKNN_INT8_MM_INT8_TO_INT32, RKNN_INT4_MM_INT4_TO_INT16,
                                      RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32};
    fill(a, M * K, 1);
    fill(b, K * N, 2);
    for (int type = 0; type < 3; type++)
        for (int16_t b_layout = 0; b_layout < 3; b_layout++)
            for (int16_t ac_layout = 0; ac_layout < 2; ac_layout++) {
                rknn_matmul_info info = {.type = types[type]};
                info.B_layout = b_layout;
                info.AC_layout = ac_layout;
                multiply(&info);
                printf("type %d B %d AC %d\n", types[type], b_layout, ac_layout);
            }
    return 0;
}
