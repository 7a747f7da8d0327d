/* Random int8 matrix products in every form that there is: C is the sum of products.
 *
 * A program for test_forms_agree.py, which builds it for other processors too. It prints the forms, and
 * ends with 1 where one is wrong. */
#include "matmul.c"

#include <stdio.h>

enum { CASES = 400, MOST = 1 << 18 };

static uint32_t state = 7;

static int between(int low, int high) {
    state = state * 1664525 + 1013904223;
    return low + (int)((state >> 8) % (uint32_t)(high - low + 1));
}

static int8_t a[MOST], stored_a[MOST], b[MOST], stored[MOST];
static int32_t c[MOST];

static void randomize(int8_t *bytes, size_t count) {
    const int extreme = between(0, 3);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (int8_t)(extreme ? between(-128, 127) : between(0, 1) ? 127 : -128);
}

/* B (k, n) as the product wants it. */
static void store_b(const struct product *p) {
    const size_t k = p->k, n = p->n, block_n = p->block_n, block_k = p->block_k;
    for (size_t row = 0; row < k; row++)
        for (size_t column = 0; column < n; column++) {
            size_t place = row * n + column;
            if (block_k) {
                const size_t segment = p->segment, start = row / segment * segment;
                const size_t rows = k - start < segment ? k - start : segment;
                const size_t block = column / block_n * (rows / block_k) + (row - start) / block_k;
                place = start * n + (block * block_n + column % block_n) * block_k + row % block_k;
            }
            stored[place] = b[row * n + column];
        }
}

/* Where an element of a matrix of some rows lies, in blocks of columns or without. */
static size_t place_of(size_t rows, size_t columns, size_t block, size_t row, size_t column) {
    return block ? (column / block * rows + row) * block + column % block : row * columns + column;
}

static void store_a(const struct product *p) {
    for (int64_t row = 0; row < p->m; row++)
        for (int64_t column = 0; column < p->k; column++)
            stored_a[place_of(p->m, p->k, p->a_block, row, column)] = a[row * p->k + column];
}

static struct product random_product(void) {
    static const int blocks[][2] = {{16, 32}, {32, 32}, {4, 16}, {8, 24},
                                    {4, 64},  {8, 16},  {64, 64}};
    struct product p = {.m = between(1, 40), .threads = between(1, 2)};
    switch (between(0, 2)) {
    case 0: /* rows */ p.k = 8 * between(1, 90), p.n = 16 * between(1, 5); break;
    case 1: /* B transposed */
        p.k = between(0, 1) ? 32 * between(1, 20) : between(1, 70), p.n = between(1, 40);
        p.segment = p.block_k = p.k, p.block_n = 1;
        break;
    default: {
        const int *block = blocks[between(0, 6)];
        p.block_n = block[0], p.block_k = block[1];
        p.k = p.block_k * between(1, 9), p.n = p.block_n * between(1, 5);
        /* Parts of B, or one that could be longer. */
        p.segment = between(0, 1) ? p.block_k * between(1, 12) : p.k;
    }
    }
    const int a_block = 4 << between(0, 3);
    if (between(0, 1) && p.k % a_block == 0)
        p.a_block = a_block;
    if (between(0, 1) && p.n % C_BLOCK == 0)
        p.c_block = C_BLOCK;
    return p;
}

static int is_right(const struct product *p) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int32_t sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[i * p->k + k] * b[k * p->n + j];
            if (c[place_of(p->m, p->n, p->c_block, i, j)] != sum)
                return 0;
        }
    return 1;
}

int main(void) {
    int right = 1;
    for (int32_t form = 0; form < FORMS; form++)
        if (anynpu_form_name(form))
            printf("%s\n", anynpu_form_name(form));
    for (int number = 0; number < CASES; number++) {
        const struct product p = random_product();
        randomize(a, p.m * p.k);
        randomize(b, p.k * p.n);
        store_a(&p);
        store_b(&p);
        for (int32_t form = 0; form < FORMS; form++) {
            if (anynpu_use_form(form))
                continue;
            memset(c, 0x55, sizeof c);
            if (anynpu_multiply_int8(&p, stored_a, stored, c) || !is_right(&p)) {
                printf("%s is wrong in case %d\n", forms[form].name, number);
                right = 0;
            }
        }
    }
    return !right;
}
