/* Products of bytes with AVX-512 whose sums stay in its registers.
 *
 * A is packed once, in tiles of some rows, quad by quad. B is packed panel by panel with its sign taken,
 * wherever its bytes lie, and each panel meets all tiles. Two sides of a panel times a tile are summed in
 * registers, beginning with what taking the sign has cost; where B has more rows than a panel, sums wait in
 * a buffer for the next ones. The last ones go to C, as it lies.
 */
#if defined(DOTS) && defined(X86)
enum {
    TALLEST = 12, /* rows of a tile: with two sides 24 of the 32 registers are sums */
    SIDES = 2,
    /* Long sides, so that few products need the buffer; wide panels, since each row of a (k, n) B is a page
     * of memory of its own. Two sides stay cached while they meet the tiles. */
    WIDE_ROWS = 4096,
    WIDE_COLUMNS = 256,
    MOST_TILES = 22, /* that meet a panel: the buffer has as many */
    AHEAD = 16,      /* rows of B that are on their way */
};

/* Rows of B from `start` on, columns from `column` on. */
struct panel {
    size_t start, rows, column, columns;
};

/* A, packed: tiles of about the same height, and what the sums of each row begin with. */
struct tiles {
    const int8_t *bytes;
    const int32_t *begins;
    size_t count;
};

/* A tile's rows times two sides, or one: how many quads of each, and bytes from one side to the next; what the
 * sums begin with in the first panel, their place in C in the last one, and in the buffer between two
 * panels, where a side has `height` rows. */
struct wide_step {
    const int8_t *a, *sides;
    size_t quads, side_size, height;
    const int32_t *begins;
    int32_t *c, *sums;
    const struct product *product;
};

/* B's packed panels: from one side to the next, so that they don't share places of a cache. */
static size_t side_size_of(const struct product *p) {
    return smaller(WIDE_ROWS, p->k) * SIDE + APART;
}

static size_t tiles_of(const struct product *p) {
    return ((size_t)p->m + TALLEST - 1) / TALLEST;
}

/* A tile's first row. */
static size_t top_of(const struct product *p, size_t tile) {
    return (size_t)p->m * tile / tiles_of(p);
}

/* Some tiles, as (tiles, quads, rows of a tile, 4), and what their rows' sums begin with: a step's kernel. */
static void pack_tiles(const void *arguments, int64_t first, int64_t end, void *space) {
    (void)space;
    const struct packing *packing = arguments;
    const struct product *p = packing->product;
    const size_t m = p->m, k = p->k, block = p->a_block ? (size_t)p->a_block : k;
    for (size_t tile = first; tile < (size_t)end; tile++) {
        const size_t top = top_of(p, tile), rows = top_of(p, tile + 1) - top;
        int8_t *packed = packing->packed + top * k;
        /* A line of each row after the other: their places in a cache may be the same. */
        for (size_t start = 0, length; start < k; start += length, packed += rows * length) {
            length = smaller(smaller(block, 64), k - start);
            const int8_t *row =
                packing->a + start / block * block * m + top * block + start % block;
            for (size_t i = 0; i < rows; i++, row += block)
                for (size_t quad = 0; quad < length; quad += 4)
                    memcpy(packed + quad * rows + 4 * i, row + quad, 4);
        }
        for (size_t i = top; i < top + rows; i++)
            packing->begins[i] = begin_of(p, packing->a, i);
    }
}

/* Sixteen of a row's sums to their place in C. */
WITH_AVX512_VNNI INLINE void store_in_c(const struct product *p, int32_t *c, size_t row, size_t s,
                                        __m512i sums) {
    if (!p->c_block) {
        _mm512_storeu_si512(c + row * p->n + s * SIDE, sums);
        return;
    }
    /* As (n / 4, m, 4). */
    __m128i *four = (__m128i *)c + s * (SIDE / 4) * p->m + row;
    _mm_storeu_si128(four, _mm512_castsi512_si128(sums));
    _mm_storeu_si128(four + p->m, _mm512_extracti32x4_epi32(sums, 1));
    _mm_storeu_si128(four + 2 * p->m, _mm512_extracti32x4_epi32(sums, 2));
    _mm_storeu_si128(four + 3 * p->m, _mm512_extracti32x4_epi32(sums, 3));
}

#define EACH_ROW UNROLLED for (size_t r = 0; r < rows; r++)
#define EACH_SIDE UNROLLED for (size_t s = 0; s < sides; s++)

WITH_AVX512_VNNI INLINE void add_tile_of(const struct wide_step *step, const size_t rows,
                                         const size_t sides) {
    __m512i sums[TALLEST][SIDES];
    const int8_t *a = step->a, *b = step->sides;
    const size_t next = step->height * SIDE;
    if (step->begins) {
        EACH_ROW EACH_SIDE sums[r][s] = _mm512_set1_epi32(step->begins[r]);
    } else {
        EACH_ROW EACH_SIDE sums[r][s] = _mm512_loadu_si512(step->sums + s * next + r * SIDE);
    }
    for (size_t quads = step->quads; quads; quads--, a += 4 * rows, b += 4 * SIDE) {
        __m512i held[SIDES];
        EACH_SIDE held[s] = _mm512_loadu_si512(b + s * step->side_size);
        EACH_ROW {
            const __m512i quad = _mm512_set1_epi32(quad_at(a + 4 * r));
            EACH_SIDE sums[r][s] = _mm512_dpbusd_epi32(sums[r][s], held[s], quad);
        }
    }
    if (step->c) {
        EACH_ROW EACH_SIDE store_in_c(step->product, step->c, r, s, sums[r][s]);
    } else {
        EACH_ROW EACH_SIDE _mm512_storeu_si512(step->sums + s * next + r * SIDE, sums[r][s]);
    }
}

/* A number of rows in a variable as a constant. */
#define TILE_OF(number)                                                                            \
    case number:                                                                                   \
        if (sides == SIDES)                                                                        \
            add_tile_of(step, number, SIDES);                                                      \
        else                                                                                       \
            add_tile_of(step, number, 1);                                                          \
        break;

WITH_AVX512_VNNI static void add_tile(const struct wide_step *step, size_t rows, size_t sides) {
    switch (rows) {
        TILE_OF(1)
        TILE_OF(2)
        TILE_OF(3)
        TILE_OF(4)
        TILE_OF(5)
        TILE_OF(6)
        TILE_OF(7)
        TILE_OF(8)
        TILE_OF(9)
        TILE_OF(10)
        TILE_OF(11)
        TILE_OF(12)
    }
}

/* Four times sixteen bytes, `next` bytes apart. */
WITH_AVX512_VNNI INLINE __m512i load_lanes(const int8_t *first, size_t next) {
    const __m128i *second = (const __m128i *)(first + next);
    const __m128i *third = (const __m128i *)(first + 2 * next);
    const __m128i *fourth = (const __m128i *)(first + 3 * next);
    __m512i lanes = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)first));
    lanes = _mm512_mask_broadcast_i32x4(lanes, 0x00f0, _mm_loadu_si128(second));
    lanes = _mm512_mask_broadcast_i32x4(lanes, 0x0f00, _mm_loadu_si128(third));
    lanes = _mm512_mask_broadcast_i32x4(lanes, 0xf000, _mm_loadu_si128(fourth));
    return _mm512_xor_si512(lanes, _mm512_set1_epi8(-BIAS));
}

/* Rows of B that lie together. */
WITH_AVX512_VNNI static void pack_wide_rows(const int8_t *b, size_t b_row, struct panel at,
                                            size_t side_size, int8_t *sides) {
    /* 4x4 words, then 4x4 bytes, change places. */
    const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    for (size_t row = 0; row < at.rows; row += 4, b += 4 * b_row, sides += 4 * SIDE) {
        for (size_t r = AHEAD; r < AHEAD + 4 && row + r < at.rows; r++)
            fetch(b + r * b_row, at.columns);
        for (size_t side = 0; side < at.columns / SIDE; side++) {
            const __m512i four = load_lanes(b + side * SIDE, b_row);
            const __m512i quads = _mm512_permutexvar_epi32(words, four);
            _mm512_storeu_si512(sides + side * side_size, _mm512_shuffle_epi8(quads, bytes));
        }
    }
}

/* Four quads of a side from as many rows of its columns, `next` bytes apart. */
WITH_AVX512_VNNI INLINE void turn_wide_quads(const int8_t *columns, size_t next, int8_t *side) {
    __m512i four[4], pairs[4];
    for (size_t i = 0; i < 4; i++)
        four[i] = load_lanes(columns + i * next, 4 * next);
    for (size_t i = 0; i < 2; i++) {
        pairs[i] = _mm512_unpacklo_epi32(four[2 * i], four[2 * i + 1]);
        pairs[i + 2] = _mm512_unpackhi_epi32(four[2 * i], four[2 * i + 1]);
    }
    for (size_t half = 0; half < 2; half++, side += 8 * SIDE) {
        const __m512i even = pairs[2 * half], odd = pairs[2 * half + 1];
        _mm512_storeu_si512(side, _mm512_unpacklo_epi64(even, odd));
        _mm512_storeu_si512(side + 4 * SIDE, _mm512_unpackhi_epi64(even, odd));
    }
}

/* Rows of a segment of `length` rows from row `first` on, whose columns lie together in blocks. */
WITH_AVX512_VNNI static void pack_wide_blocks(const struct product *p, const int8_t *segment,
                                              size_t length, size_t first, struct panel at,
                                              size_t side_size, int8_t *sides) {
    const size_t block_n = p->block_n, block_k = p->block_k;
    const size_t next = block_n == 1 ? length : block_k;
    /* Sides of a block go together, and so its memory is read in its order. */
    for (size_t j = 0, width; j < at.columns; j += width, sides += width / SIDE * side_size) {
        const size_t column = at.column + j, left = block_n - column % block_n;
        width = smaller(block_n == 1 ? SIDE : left, at.columns - j);
        const int8_t *block = segment + column / block_n * block_n * length +
                              first / block_k * block_n * block_k + column % block_n * block_k;
        for (size_t row = 0, within = first % block_k, rows; row < at.rows; row += rows) {
            rows = smaller(block_k - within, at.rows - row);
            for (size_t side = 0; side < width / SIDE; side++)
                for (size_t r = 0; r < rows; r += 16)
                    turn_wide_quads(block + side * SIDE * next + within + r, next,
                                    sides + side * side_size + (row + r) * SIDE);
            within = 0, block += block_n * block_k;
        }
    }
}

static void pack_panel(const struct product *p, const int8_t *b, struct panel at, int8_t *sides) {
    const size_t first = at.start % segment_of(p), begin = at.start - first;
    const size_t length = smaller(segment_of(p), p->k - begin), side_size = side_size_of(p);
    if (p->block_k)
        pack_wide_blocks(p, b + begin * p->n, length, first, at, side_size, sides);
    else
        pack_wide_rows(b + at.start * p->n + at.column, p->n, at, side_size, sides);
}

/* The panel below, or at the top of the next columns; one without columns after the last. */
static struct panel panel_after(const struct product *p, struct share share, struct panel at) {
    at.start += at.rows;
    if (at.start == (size_t)p->k) {
        at.start = 0;
        at.column += at.columns;
    }
    at.columns = smaller(WIDE_COLUMNS, share.end - at.column);
    at.rows = smaller(segment_of(p) - at.start % segment_of(p), p->k - at.start);
    at.rows = smaller(at.rows, WIDE_ROWS);
    return at;
}

/* A panel times tiles from `first` on. */
static void multiply_panel(const struct product *p, struct tiles tiles, size_t first,
                           struct panel at, const int8_t *panel, int32_t *sums, int32_t *c) {
    const int is_last = at.start + at.rows == (size_t)p->k;
    const size_t begin = top_of(p, first), height = top_of(p, first + tiles.count) - begin;
    const size_t pairs = (at.columns + SIDES * SIDE - 1) / (SIDES * SIDE);
    for (size_t pair = 0; pair < pairs; pair++)
        for (size_t tile = first; tile < first + tiles.count; tile++) {
            const size_t top = top_of(p, tile), rows = top_of(p, tile + 1) - top;
            const size_t column = pair * SIDES * SIDE, left = (at.columns - column) / SIDE;
            int32_t *place = c + (p->c_block ? (at.column + column) * p->m + top * p->c_block
                                             : top * p->n + at.column + column);
            const struct wide_step step = {
                tiles.bytes + top * p->k + at.start * rows,
                panel + pair * SIDES * side_size_of(p),
                at.rows / 4,
                side_size_of(p),
                height,
                at.start ? NULL : tiles.begins + top,
                is_last ? place : NULL,
                sums + column * height + (top - begin) * SIDE,
                p,
            };
            add_tile(&step, rows, smaller(left, SIDES));
        }
}

/* A thread's space: a panel, and sums between two panels. */
static size_t size_of_panel(const struct product *p) {
    return WIDE_COLUMNS / SIDE * side_size_of(p);
}

static size_t space_for_tiles(const struct product *p) {
    return size_of_panel(p) + MOST_TILES * TALLEST * WIDE_COLUMNS * sizeof(int32_t);
}

/* C's columns of a share. */
static void multiply_tiles(const struct product *p, struct share share, struct tiles tiles,
                           const int8_t *b, int32_t *c, int8_t *panel) {
    const size_t parts = (tiles.count + MOST_TILES - 1) / MOST_TILES;
    int32_t *sums = (int32_t *)(panel + size_of_panel(p));
    for (size_t part = 0; part < parts; part++) {
        const size_t first = tiles.count * part / parts;
        const struct tiles some = {tiles.bytes, tiles.begins,
                                   tiles.count * (part + 1) / parts - first};
        struct panel at = panel_after(p, share, (struct panel){0, 0, share.begin, 0});
        while (at.columns) {
            pack_panel(p, b, at, panel);
            multiply_panel(p, some, first, at, panel, sums, c);
            at = panel_after(p, share, at);
        }
    }
}

/* Whether tiles are worth packing, and can be: whole quads of whole sides. */
static int has_tiles(const struct product *p) {
    const int64_t few = p->block_n == 1 ? FEW_COLUMNS : FEW_ROWS;
    return running_form == AVX512_VNNI && p->m > few && p->k % 4 == 0 && p->n % SIDE == 0 &&
           p->block_k % 16 == 0 && (p->block_n == 1 || p->block_n % SIDE == 0);
}
#endif
