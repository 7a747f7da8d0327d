/* Products of bytes with AVX-512 where A has few rows: B is read once, as it lies, and nothing of it is
 * packed, so that they take as long as memory or the products themselves.
 *
 * Where columns of B lie along K, a vector holds one of them or two; some vectors times all rows of A are
 * summed in registers. Where rows of B lie together, the quads of some of them are made in registers, and
 * each thread adds up rows of its own.
 */
#if defined(DOTS) && defined(X86)
enum {
    MOST_FEW = 8, /* rows of A; with more it pays to pack B */
    VECTOR = 64,
    /* Quads whose vectors stay in registers while they meet A's rows. Memory is read faster where fewer
     * rows of B go together, which with few rows of A is what counts. */
    TURNED_QUADS = 4,
    FEWER_QUADS = 2,
    FEWEST = 2,
    FETCHED = 2048,        /* bytes to what is fetched where memory is read in its order */
    TURNED_ROWS = 32,      /* of B, in a unit of work */
    TURNED_COLUMNS = 4096, /* the same: less of a row at a time takes longer to read */
};

/* How A gets packed, and what the sums of each row begin with. */
struct packing {
    const struct product *product;
    const int8_t *a;
    int8_t *packed;
    int32_t *begins;
};

/* A, packed: rows that end with zeros, or quads as (k / 4, m). */
struct few {
    const struct product *product;
    const int8_t *a;
    size_t row;
    const int32_t *begins;
    int32_t *c;
};

INLINE int32_t *place_in_c(const struct few *few, size_t row, size_t column) {
    const struct product *p = few->product;
    return few->c + (p->c_block
                         ? column / C_BLOCK * C_BLOCK * p->m + row * C_BLOCK + column % C_BLOCK
                         : row * p->n + column);
}

/* ------------------------------------------------------------------------ columns that lie along K */

/* How some columns lie: `count` parts of as many rows of B as a vector has of each, and what is left of the
 * last one; bytes from a part to the next, and from a vector to the next. */
struct lie {
    size_t count, left, part, vector;
};

/* A part of A's row once for each column of a vector. */
WITH_AVX512_VNNI INLINE __m512i part_of_row(const int8_t *a, const size_t columns) {
    if (columns == 1)
        return _mm512_loadu_si512(a);
    const __m256i half = _mm256_loadu_si256((const __m256i *)a);
    return join_avx512(half, half);
}

WITH_AVX512_VNNI INLINE int32_t sum_of_column(__m512i sums, size_t column, const size_t columns) {
    const __m256i low = _mm512_castsi512_si256(sums), high = _mm512_extracti64x4_epi64(sums, 1);
    if (columns == 1)
        return sum_of_lanes(_mm256_add_epi32(low, high));
    return sum_of_lanes(column ? high : low);
}

#define EACH_VECTOR UNROLLED for (size_t v = 0; v < vectors; v++)
#define EACH_FEW UNROLLED for (size_t r = 0; r < rows; r++)

/* Some vectors times all rows of A; `next` is what is read after them. */
WITH_AVX512_VNNI INLINE void add_columns_of(const struct few *few, struct lie lie, const int8_t *b,
                                            const int8_t *next, size_t column, const size_t rows,
                                            const size_t vectors, const size_t columns) {
    const __m512i sign = _mm512_set1_epi8(-BIAS);
    const int8_t *a = few->a;
    __m512i sums[MOST_FEW][VECTOR / 4], held[VECTOR / 4];
    EACH_FEW EACH_VECTOR sums[r][v] = _mm512_setzero_si512();
    for (size_t part = 0; part < lie.count; part++, a += VECTOR / columns) {
        EACH_VECTOR {
            held[v] = _mm512_xor_si512(_mm512_loadu_si512(b + v * lie.vector), sign);
            __builtin_prefetch(next + v * lie.vector + VECTOR - 1, 0, 2);
        }
        EACH_FEW {
            const __m512i both = part_of_row(a + r * few->row, columns);
            EACH_VECTOR sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], held[v], both);
        }
        b += lie.part, next += lie.part;
    }
    if (lie.left) {
        const __mmask64 mask = ((__mmask64)1 << lie.left) - 1;
        EACH_VECTOR held[v] =
            _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, b + v * lie.vector), sign);
        EACH_FEW {
            const __m512i both = part_of_row(a + r * few->row, columns);
            EACH_VECTOR sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], held[v], both);
        }
    }
    EACH_FEW EACH_VECTOR for (size_t i = 0; i < columns; i++) *
        place_in_c(few, r, column + v * columns + i) =
        few->begins[r] + sum_of_column(sums[r][v], i, columns);
}

/* How many vectors meet so many rows at once. One row meets whole blocks, so that memory is read in its order. */
static size_t vectors_for(const struct product *p) {
    if (p->m == 1)
        return p->block_n % 32 ? 8 : 16;
    return p->m <= 4 ? 4 : 2;
}

#define FEW_OF(rows, vectors)                                                                      \
    case (rows) * 16 + (vectors) - 1:                                                              \
        if (columns == 1)                                                                          \
            add_columns_of(few, lie, b, next, column, rows, vectors, 1);                           \
        else                                                                                       \
            add_columns_of(few, lie, b, next, column, rows, vectors, 2);                           \
        break;

WITH_AVX512_VNNI static void add_columns(const struct few *few, struct lie lie, const int8_t *b,
                                         const int8_t *next, size_t column, size_t vectors,
                                         size_t columns) {
    switch (few->product->m * 16 + vectors - 1) {
        FEW_OF(1, 16)
        FEW_OF(1, 8)
        FEW_OF(2, 4)
        FEW_OF(3, 4)
        FEW_OF(4, 4)
        FEW_OF(5, 2)
        FEW_OF(6, 2)
        FEW_OF(7, 2)
        FEW_OF(8, 2)
    }
}

static void multiply_few_columns(const struct few *few, struct share share, const int8_t *b) {
    const struct product *p = few->product;
    const size_t k = p->k, block = p->block_n, columns = block == 1 ? 1 : 2;
    const size_t depth = VECTOR / columns, vectors = vectors_for(p);
    const struct lie lie = {k / depth, k % depth, columns == 1 ? VECTOR : block * depth,
                            columns == 1 ? k : VECTOR};
    const int in_order = lie.part == vectors * VECTOR;
    for (size_t j = share.begin, next; j < share.end; j = next) {
        next = j + vectors * columns;
        /* Blocks lie one after the other. */
        const int8_t *here = b + j / block * block * k + j % block * depth;
        const int8_t *there =
            in_order ? here + FETCHED : b + next / block * block * k + next % block * depth;
        add_columns(few, lie, here, there, j, vectors, columns);
    }
}

/* --------------------------------------------------------------------- rows of B that lie together */

/* A thread's sums of rows that lie together: of each vector's columns those of all rows of A. They lie as
 * quads do: columns 16 i + 4 j to 16 i + 4 j + 3 are lane i of vector j. */
struct turned_sums {
    _Alignas(VECTOR) int32_t is_begun; /* a thread that has met no row has none */
    _Alignas(VECTOR) int32_t sums[];
};

/* What is multiplied, and each thread's sums, of which there may be fewer. */
struct turned {
    struct few few;
    const int8_t *b;
    void *const *spaces;
    size_t threads;
};

/* Quads of some rows of B times all rows of A, added to sums; `ahead` are bytes to what is read later. */
WITH_AVX512_VNNI INLINE void add_turned_of(const struct few *few, const int8_t *b, const int32_t *a,
                                           __mmask64 mask, int32_t *sums, size_t ahead,
                                           const size_t quads) {
    const size_t n = few->product->n, m = few->product->m;
    const __m512i sign = _mm512_set1_epi8(-BIAS);
    __m512i held[TURNED_QUADS][4];
    UNROLLED for (size_t q = 0; q < quads; q++, b += 4 * n) {
        __m512i row[4], pairs[4];
        UNROLLED for (size_t r = 0; r < 4; r++) {
            row[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, b + r * n), sign);
            __builtin_prefetch(b + r * n + ahead, 0, 2);
        }
        UNROLLED for (size_t r = 0; r < 2; r++) {
            pairs[r] = _mm512_unpacklo_epi8(row[2 * r], row[2 * r + 1]);
            pairs[r + 2] = _mm512_unpackhi_epi8(row[2 * r], row[2 * r + 1]);
        }
        UNROLLED for (size_t half = 0; half < 2; half++) {
            held[q][2 * half] = _mm512_unpacklo_epi16(pairs[2 * half], pairs[2 * half + 1]);
            held[q][2 * half + 1] = _mm512_unpackhi_epi16(pairs[2 * half], pairs[2 * half + 1]);
        }
    }
    for (size_t r = 0; r < m; r++, sums += VECTOR) {
        __m512i total[4];
        UNROLLED for (size_t v = 0; v < 4; v++) total[v] = _mm512_loadu_si512(sums + v * 16);
        UNROLLED for (size_t q = 0; q < quads; q++) {
            const __m512i quad = _mm512_set1_epi32(a[q * m + r]);
            UNROLLED for (size_t v = 0; v < 4; v++) total[v] =
                _mm512_dpbusd_epi32(total[v], held[q][v], quad);
        }
        UNROLLED for (size_t v = 0; v < 4; v++) _mm512_storeu_si512(sums + v * 16, total[v]);
    }
}

/* Some quads' rows times all rows of A, column by column from `begin` to `end`. */
#define ADD_TURNED(quads)                                                                          \
    for (size_t j = begin; j < end; j += VECTOR) {                                                 \
        const __mmask64 mask = ~(__mmask64)0 >> (VECTOR - smaller(VECTOR, end - j));               \
        add_turned_of(few, b + j, a, mask, sums + j * few->product->m, ahead, quads);              \
    }

WITH_AVX512_VNNI static void add_turned(const struct few *few, const int8_t *b, size_t row,
                                        size_t rows, size_t begin, size_t end, int32_t *sums) {
    const size_t m = few->product->m, k = few->product->k, n = few->product->n;
    const size_t ahead = row + 2 * rows <= k ? rows * n : 0;
    const int32_t *a = (const int32_t *)few->a + row / 4 * m;
    b += row * n;
    if (rows == 4 * TURNED_QUADS)
        ADD_TURNED(TURNED_QUADS)
    else if (rows == 4 * FEWER_QUADS)
        ADD_TURNED(FEWER_QUADS)
    else
        for (; rows; rows -= 4, b += 4 * n, a += m)
            ADD_TURNED(1)
}

/* Units lie row by row of B, in blocks of columns. */
static size_t parts_of_turned(const struct product *p) {
    return ((size_t)p->k + TURNED_ROWS - 1) / TURNED_ROWS;
}

static size_t units_of_turned(const struct product *p) {
    return ((size_t)p->n + TURNED_COLUMNS - 1) / TURNED_COLUMNS * parts_of_turned(p);
}

static size_t space_for_turned(const struct product *p) {
    const size_t columns = ((size_t)p->n + VECTOR - 1) / VECTOR * VECTOR;
    return sizeof(struct turned_sums) + columns * p->m * sizeof(int32_t);
}

static void multiply_turned(const void *arguments, int64_t unit, int64_t end, void *space) {
    const struct turned *turned = arguments;
    const struct few *few = &turned->few;
    const struct product *p = few->product;
    const size_t most = 4 * (p->m > FEWEST ? TURNED_QUADS : FEWER_QUADS);
    struct turned_sums *own = space;
    if (!own->is_begun)
        memset(own->sums, 0, space_for_turned(p) - sizeof *own);
    own->is_begun = 1;
    for (; unit < end; unit++) {
        const size_t row = unit % parts_of_turned(p) * TURNED_ROWS;
        const size_t last_row = smaller(row + TURNED_ROWS, p->k);
        const size_t column = unit / parts_of_turned(p) * TURNED_COLUMNS;
        const size_t last = smaller(column + TURNED_COLUMNS, p->n);
        for (size_t r = row; r < last_row; r += most)
            add_turned(few, turned->b, r, smaller(most, last_row - r), column, last, own->sums);
    }
}

/* C of the columns of some vectors, from all threads' sums. */
static void add_up_turned(const void *arguments, int64_t unit, int64_t end, void *space) {
    const struct turned *turned = arguments;
    const struct few *few = &turned->few;
    const size_t m = few->product->m, n = few->product->n;
    for (; unit < end; unit++)
        for (size_t r = 0; r < m; r++) {
            uint32_t total[VECTOR]; /* may wrap before it is one that fits */
            for (size_t i = 0; i < VECTOR; i++)
                total[i] = few->begins[r];
            for (size_t t = 0; t < turned->threads; t++) {
                const struct turned_sums *of = turned->spaces[t];
                for (size_t i = 0; of->is_begun && i < VECTOR; i++)
                    total[i] += of->sums[(unit * m + r) * VECTOR + i];
            }
            const size_t columns = smaller(VECTOR, n - unit * VECTOR);
            for (size_t j = 0; j < columns; j += C_BLOCK)
                memcpy(place_in_c(few, r, unit * VECTOR + j), total + j % 16 / 4 * 16 + j / 16 * 4,
                       C_BLOCK * sizeof *total);
        }
    (void)space;
}

/* ------------------------------------------------------------------------------------------- A, packed */

/* Bytes from a packed row to the next: a part more than there is, and apart in a cache. */
static size_t row_of_few(const struct product *p) {
    return ((size_t)p->k + VECTOR - 1) / VECTOR * VECTOR + APART;
}

static void pack_few(const struct packing *packing) {
    const struct product *p = packing->product;
    const size_t m = p->m, k = p->k, block = p->a_block ? (size_t)p->a_block : k;
    const size_t row = row_of_few(p);
    const int8_t *a = packing->a;
    for (size_t start = 0; start < k; start += block)
        for (size_t r = 0; r < m; r++, a += block) {
            if (p->block_k) {
                memcpy(packing->packed + r * row + start, a, block);
                continue;
            }
            for (size_t j = 0; j < block; j += 4)
                memcpy(packing->packed + (start + j) * m + 4 * r, a + j, 4);
        }
    for (size_t r = 0; r < m; r++) {
        packing->begins[r] = begin_of(p, packing->a, r);
        if (p->block_k)
            memset(packing->packed + r * row + k, 0, row - k);
    }
}

static int has_few(const struct product *p) {
    const int is_along = p->block_n == 1 || (p->block_k == VECTOR / 2 && p->segment >= p->k);
    return running_form == AVX512_VNNI && p->m <= MOST_FEW && p->k % 4 == 0 && p->n % SIDE == 0 &&
           (!p->block_k || (is_along && (p->block_n == 1 || p->block_n % SIDE == 0)));
}
#endif
