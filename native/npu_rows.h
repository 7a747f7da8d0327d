/* What int8 convolutions see as rows, for npu.c: for each place of the kernel, all channels of the input there,
 * as int16 or as the bytes that they are. */
#ifndef ANYNPU_NPU_ROWS_H
#define ANYNPU_NPU_ROWS_H

#include <stdint.h>
#include <string.h>

#include "dots.h"
#include "npu.h"

/* What gathered rows hold: int16, or the bytes as they are, which some forms multiply; bytes of each. */
enum { BYTES = 1, WIDE = 2 };

/* Whether rows may be bytes: where the form that runs multiplies them, and padding is one. */
INLINE int size_in_rows(const struct int8_dense *a) {
    const float padding = a->window.padding;
    return has_dots(running_form) && padding >= -128 && padding <= 127 ? BYTES : WIDE;
}

INLINE void put(const int8_t *source, int8_t *row, const int64_t count, const int size) {
    int16_t *wide = (int16_t *)row;
    if (count == 16 || count == 8) {
        /* Held apart: bytes might lie anywhere, also in the target. */
        int8_t held[LANES];
        memcpy(held, source, count);
        if (size == BYTES)
            memcpy(row, held, count);
        else
            for (int64_t i = 0; i < count; i++)
                wide[i] = held[i];
    } else if (size == BYTES)
        memcpy(row, source, count);
    else
        for (int64_t i = 0; i < count; i++)
            wide[i] = source[i];
}

/* The same number in the places `first` to `end`. */
INLINE void put_number(int8_t *row, int64_t first, int64_t end, int value, const int size) {
    for (int64_t c = first; c < end; c++)
        if (size == BYTES)
            row[c] = (int8_t)value;
        else
            ((int16_t *)row)[c] = (int16_t)value;
}

/* Rounded up; most strides are 1. */
INLINE int64_t steps_to(int64_t distance, int64_t stride) {
    return stride == 1 ? distance : (distance + stride - 1) / stride;
}

/* What one output pixel sees: for each place of the kernel, all channels of the input there. With
 * `is_inside` all places are. */
INLINE void gather_pixel(const struct features *f, const struct window *k, int64_t channels,
                         int64_t y, int64_t x, int8_t *row, const int64_t lanes,
                         const int is_inside, const int size) {
    const int64_t step = f->surfaces * lanes;
    for (int64_t ky = 0; ky < k->height; ky++, y += k->dilation_y) {
        const int8_t *line = (const int8_t *)f->base + y * f->line + x * f->pixel;
        int64_t left = x;
        for (int64_t kx = 0; kx < k->width; kx++, row += step * size, left += k->dilation_x) {
            if (!is_inside && (y < 0 || y >= f->height || left < 0 || left >= f->width)) {
                put_number(row, 0, channels, (int)k->padding, size);
                put_number(row, channels, step, 0, size);
                continue;
            }
            const int8_t *atom = line + kx * k->dilation_x * f->pixel;
            for (int64_t s = 0; s < f->surfaces; s++)
                put(atom + s * f->surface, row + s * lanes * size, lanes, size);
            put_number(row, f->valid, step, 0, size);
        }
    }
}

/* The same for a picture, or any features of one channel block, whose neighbours in a row lie side by
 * side; whole vectors are read and written. */
INLINE void gather_packed(const struct features *f, const struct window *k, int64_t y, int64_t x,
                          int8_t *row, const int64_t lanes, const int size) {
    const int64_t count = k->width * lanes;
    const int8_t *pixels = (const int8_t *)f->base + y * f->line + x * lanes;
    for (int64_t ky = 0; ky < k->height;
         ky++, row += count * size, pixels += k->dilation_y * f->line)
        for (int64_t c = 0; c < count; c += LANES)
            put(pixels + c, row + c * size, LANES, size);
}

/* The pixels of the rows `y` to `below` from which on `size` bytes may be read, in any of the rows. */
INLINE int64_t readable_pixels(const struct features *f, int64_t y, int64_t below, int64_t size) {
    const int64_t row = f->line < 0 ? y * f->line : below * f->line,
                  room = f->readable - row - size;
    return room < 0 ? 0 : room / f->pixel + 1;
}

/* The first pixel of a row whose places all lie inside, and the one past the last. With `is_packed`
 * whole vectors can be read there. */
INLINE void find_inside(const struct int8_dense *a, int64_t y, int64_t lanes, int64_t *begin,
                        int64_t *end) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t below = y + (k->height - 1) * k->dilation_y;
    int64_t last = f->width - 1 - (k->width - 1) * k->dilation_x;
    if (a->is_packed) {
        const int64_t vectors = (k->width * lanes + LANES - 1) / LANES * LANES;
        const int64_t pixels = readable_pixels(f, y, below, vectors);
        last = pixels - 1 < last ? pixels - 1 : last;
    }
    const int64_t reach = last + k->left;
    *begin = steps_to(k->left, k->stride_x);
    *end = y < 0 || below >= f->height || reach < 0 ? 0 : reach / k->stride_x + 1;
}

/* The sum of `count` bytes, a multiple of 8. */
INLINE int32_t sum_bytes(const int8_t *bytes, int64_t count) {
    int32_t sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += bytes[c];
    return sum;
}

#ifdef X86
/* Bytes that lost their sign are summed eight at a time. */
WITH_AVX2 INLINE __m128i sums_of_eights(__m128i bytes) {
    return _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
}

WITH_AVX2 INLINE int32_t sum_of_eights(__m128i sums, int64_t count) {
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) -
           (int32_t)(128 * count);
}

WITH_AVX2 static int32_t sum_bytes_avx2(const int8_t *bytes, int64_t count) {
    __m128i sums = _mm_setzero_si128();
    int64_t c = 0;
    for (; c + 16 <= count; c += 16)
        sums = _mm_add_epi64(sums, sums_of_eights(_mm_loadu_si128((const __m128i *)(bytes + c))));
    if (c < count) {
        const __m128i eight = _mm_loadl_epi64((const __m128i *)(bytes + c));
        sums = _mm_add_epi64(sums, _mm_move_epi64(sums_of_eights(eight)));
    }
    return sum_of_eights(sums, count);
}

/* How a row of bytes is joined of what a kernel's rows see, where that is at most LANES bytes of one each: from
 * which one and which bytes of it, and whether an atom of the row ends with them. */
enum { MOST_JOINED = 16 };

struct joined {
    int64_t count;
    struct {
        int64_t line;
        int8_t from[LANES];
        int ends;
    } part[MOST_JOINED];
};

/* Whether that is so for an input whose neighbours lie side by side. */
INLINE int join(const struct int8_dense *a, int64_t lanes, struct joined *j) {
    const struct window *k = &a->window;
    const int64_t count = k->width * lanes, atoms = (a->depth + LANES - 1) / LANES;
    if (!a->is_packed || count > LANES || atoms + k->height > MOST_JOINED)
        return 0;
    j->count = 0;
    for (int64_t begin = 0; begin < atoms * LANES; begin += LANES)
        for (int64_t ky = begin / count; ky <= (begin + LANES - 1) / count && ky < k->height;
             ky++) {
            for (int64_t i = 0; i < LANES; i++) {
                const int64_t from = begin + i - ky * count;
                j->part[j->count].from[i] = (int8_t)(from < 0 || from >= count ? -1 : from);
            }
            j->part[j->count].line = ky * k->dilation_y * a->features.line;
            j->part[j->count++].ends = ky == k->height - 1 || (ky + 1) * count >= begin + LANES;
        }
    return 1;
}

/* Rows of neighbours, `step` bytes apart, whose places all lie inside. */
WITH_AVX2 static void gather_joined_avx2(const struct int8_dense *a, const struct joined *j,
                                         const int8_t *pixel, int64_t step, int64_t count,
                                         int8_t *rows, const int size) {
    const int64_t depth = a->depth, stride = a->stride * size;
    for (; count > 0; count--, pixel += step, rows += stride) {
        __m128i atom = _mm_setzero_si128(), sums = atom;
        int8_t *target = rows;
        for (int64_t p = 0; p < j->count; p++) {
            const __m128i seen = _mm_loadu_si128((const __m128i *)(pixel + j->part[p].line));
            const __m128i from = _mm_loadu_si128((const __m128i *)j->part[p].from);
            atom = _mm_or_si128(atom, _mm_shuffle_epi8(seen, from));
            if (!j->part[p].ends)
                continue;
            if (size == BYTES)
                _mm_storeu_si128((__m128i *)target, atom);
            else
                _mm256_storeu_si256((__m256i *)target, _mm256_cvtepi8_epi16(atom));
            sums = _mm_add_epi64(sums, sums_of_eights(atom));
            atom = _mm_setzero_si128();
            target += LANES * size;
        }
        if (size == BYTES) {
            const int32_t sum = sum_of_eights(sums, (target - rows));
            memcpy(rows + depth, &sum, sizeof sum);
        }
    }
}

/* Ones in the first `count` lanes of an atom. */
WITH_AVX2 INLINE __m128i first_lanes(int64_t count) {
    const __m128i lane = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t kept = count < 0 ? 0 : count < LANES ? count : LANES;
    return _mm_cmpgt_epi8(_mm_set1_epi8((int8_t)kept), lane);
}

/* Where rows of a part of the output's row go, and which of them see something at a place of the kernel. */
struct part {
    int8_t *rows;
    int64_t count, begin, end;
};

/* What neighbours see at one place of the kernel, in one surface. */
WITH_AVX2 INLINE void gather_surface_avx2(struct part p, int64_t stride, const int8_t *atom,
                                          int64_t step, __m128i kept, __m128i padding) {
    int64_t i = 0;
    for (; i < p.begin; i++, p.rows += stride)
        _mm_storeu_si128((__m128i *)p.rows, padding);
    for (; i < p.end; i++, p.rows += stride, atom += step)
        _mm_storeu_si128((__m128i *)p.rows,
                         _mm_and_si128(_mm_loadu_si128((const __m128i *)atom), kept));
    for (; i < p.count; i++, p.rows += stride)
        _mm_storeu_si128((__m128i *)p.rows, padding);
}

/* What `count` neighbours from column `ox` on of an output row see. */
WITH_AVX2 INLINE void gather_part_avx2(const struct int8_dense *a, int64_t oy, int64_t ox,
                                       int64_t count, int8_t *rows) {
    const struct features f = a->features;
    const struct window k = a->window;
    const int64_t stride = a->stride, channels = a->channels;
    const __m128i padding = _mm_set1_epi8((int8_t)k.padding), all = _mm_set1_epi8(-1);
    int64_t y = oy * k.stride_y - k.top;
    for (int64_t ky = 0; ky < k.height; ky++, y += k.dilation_y) {
        const int8_t *line = (const int8_t *)f.base + y * f.line;
        int64_t x = ox * k.stride_x - k.left;
        for (int64_t kx = 0; kx < k.width; kx++, x += k.dilation_x) {
            const int is_inside = y >= 0 && y < f.height && x < f.width;
            const int64_t end = is_inside ? least(steps_to(f.width - x, k.stride_x), count) : 0;
            const int64_t begin = x < 0 ? least(steps_to(-x, k.stride_x), end) : 0;
            const int8_t *atom = line + (x + begin * k.stride_x) * f.pixel;
            for (int64_t s = 0; s < f.surfaces; s++, atom += f.surface, rows += LANES) {
                const struct part p = {rows, count, begin, end};
                const int64_t after = (s + 1) * LANES;
                __m128i kept = all, seen = padding;
                if (after > f.valid)
                    kept = first_lanes(f.valid - s * LANES);
                if (after > channels)
                    seen = _mm_and_si128(padding, first_lanes(channels - s * LANES));
                gather_surface_avx2(p, stride, atom, k.stride_x * f.pixel, kept, seen);
            }
        }
    }
}

/* Rows of so few surfaces are written one after another, each with its sum at once, where what isn't read of
 * atoms is in the last surface. */
enum { MOST_AT_ONCE = 8 };

/* Where a row's next atom goes, and the sums of those before. */
struct row {
    __m128i *row, sums;
};

WITH_AVX2 INLINE void put_atom(struct row *r, __m128i atom) {
    _mm_storeu_si128(r->row++, atom);
    r->sums = _mm_add_epi64(r->sums, sums_of_eights(atom));
}

/* What lies outside at `places` of the kernel. */
WITH_AVX2 INLINE void put_padding(struct row *r, int64_t places, const int surfaces,
                                  const __m128i *padding) {
    for (int64_t p = 0; p < places; p++)
        for (int s = 0; s < surfaces; s++)
            put_atom(r, padding[s == surfaces - 1]);
}

/* One pixel's row; `kept` and `padding` hold what is left of atoms, and of those of the last surface. */
WITH_AVX2 INLINE __m128i gather_row_avx2(const struct features *f, const struct window *k,
                                         int64_t y, int64_t x, int8_t *target, const int surfaces,
                                         const __m128i *kept, const __m128i *padding) {
    struct row r = {(__m128i *)target, _mm_setzero_si128()};
    const int64_t right = steps_to(f->width - x, k->dilation_x);
    const int64_t end = x >= f->width ? 0 : least(right, k->width);
    const int64_t begin = x < 0 ? least(steps_to(-x, k->dilation_x), end) : 0;
    for (int64_t ky = 0; ky < k->height; ky++, y += k->dilation_y) {
        if (y < 0 || y >= f->height) {
            put_padding(&r, k->width, surfaces, padding);
            continue;
        }
        const int8_t *atom =
            (const int8_t *)f->base + y * f->line + (x + begin * k->dilation_x) * f->pixel;
        put_padding(&r, begin, surfaces, padding);
        for (int64_t kx = begin; kx < end; kx++, atom += k->dilation_x * f->pixel)
            for (int s = 0; s < surfaces; s++) {
                const __m128i all = _mm_loadu_si128((const __m128i *)(atom + s * f->surface));
                put_atom(&r, _mm_and_si128(all, kept[s == surfaces - 1]));
            }
        put_padding(&r, k->width - end, surfaces, padding);
    }
    return r.sums;
}

WITH_AVX2 INLINE void gather_rows_avx2(const struct int8_dense *a, int64_t first, int64_t count,
                                       int8_t *rows, const int surfaces) {
    const struct features f = a->features;
    const struct window k = a->window;
    const int64_t depth = a->depth, stride = a->stride, last = (surfaces - 1) * LANES;
    const __m128i all = _mm_set1_epi8(-1), value = _mm_set1_epi8((int8_t)k.padding);
    const __m128i kept[2] = {all, first_lanes(f.valid - last)};
    const __m128i padding[2] = {value, _mm_and_si128(value, first_lanes(a->channels - last))};
    int64_t oy = first / k.out_width, ox = first % k.out_width;
    for (; count > 0; count--, rows += stride) {
        const __m128i sums =
            gather_row_avx2(&f, &k, oy * k.stride_y - k.top, ox * k.stride_x - k.left, rows,
                            surfaces, kept, padding);
        const int32_t sum = sum_of_eights(sums, depth);
        memcpy(rows + depth, &sum, sizeof sum);
        if (++ox == k.out_width)
            ox = 0, oy++;
    }
}

/* `gather` for bytes of whole atoms, which fill the depth. */
WITH_AVX2 static void gather_atoms_avx2(const struct int8_dense *a, int64_t first, int64_t count,
                                        int8_t *rows) {
    const int64_t width = a->window.out_width;
    const int64_t before_last = (a->features.surfaces - 1) * LANES;
    const int is_last_begun = least(a->features.valid, a->channels) > before_last;
    if (a->features.surfaces <= MOST_AT_ONCE && a->window.width > 1 && is_last_begun) {
        switch (a->features.surfaces) {
        case 1: gather_rows_avx2(a, first, count, rows, 1); return;
        case 2: gather_rows_avx2(a, first, count, rows, 2); return;
        case 4: gather_rows_avx2(a, first, count, rows, 4); return;
        default: gather_rows_avx2(a, first, count, rows, (int)a->features.surfaces); return;
        }
    }
    int64_t oy = first / width, ox = first % width;
    while (count > 0) {
        const int64_t n = least(width - ox, count);
        gather_part_avx2(a, oy, ox, n, rows);
        for (int64_t i = 0; i < n; i++, rows += a->stride) {
            const int32_t sum = sum_bytes_avx2(rows, a->depth);
            memcpy(rows + a->depth, &sum, sizeof sum);
        }
        count -= n;
        ox = 0, oy++;
    }
}
#endif

/* One row for each of `count` output pixels; zeros fill it up to `depth`, after which rows of bytes have
 * their sum. Rows of what is packed have room for LANES values more. */
INLINE void gather(const struct int8_dense *a, int64_t first, int64_t count, int8_t *rows,
                   const int64_t lanes, const int form, const int size) {
    /* Copies, which the bytes that are written can't change. */
    const struct features features = a->features, *f = &features;
    const struct window window = a->window, *k = &window;
    const int64_t stride = a->stride * size, depth = a->depth, channels = a->channels;
    const int64_t places = k->height * k->width * f->surfaces * lanes;
    int64_t oy = first / k->out_width, ox = first % k->out_width;
#ifdef X86
    struct joined joined;
    const int joins = has_avx2(form) && join(a, lanes, &joined);
#endif
    while (count > 0) {
        const int64_t y = oy * k->stride_y - k->top;
        int64_t begin, end;
        find_inside(a, y, lanes, &begin, &end);
        for (; count > 0 && ox < k->out_width; count--, ox++, rows += stride) {
#ifdef X86
            const int64_t some = ox < begin ? 0 : least(least(end, k->out_width) - ox, count);
            if (joins && some > 0) {
                gather_joined_avx2(a, &joined,
                                   (const int8_t *)f->base + y * f->line +
                                       (ox * k->stride_x - k->left) * lanes,
                                   k->stride_x * lanes, some, rows, size);
                count -= some - 1, ox += some - 1, rows += (some - 1) * stride;
                continue;
            }
#endif
            const int64_t x = ox * k->stride_x - k->left;
            if (ox < begin || ox >= end)
                gather_pixel(f, k, channels, y, x, rows, lanes, 0, size);
            else if (a->is_packed)
                gather_packed(f, k, y, x, rows, lanes, size);
            else
                gather_pixel(f, k, channels, y, x, rows, lanes, 1, size);
            put_number(rows, places, depth, 0, size);
            if (size == BYTES) {
#ifdef X86
                const int32_t sum =
                    has_avx2(form) ? sum_bytes_avx2(rows, depth) : sum_bytes(rows, depth);
#else
                const int32_t sum = sum_bytes(rows, depth);
#endif
                memcpy(rows + depth, &sum, sizeof sum);
            }
        }
        ox = 0, oy++;
    }
    (void)form;
}

INLINE void gather_any(const struct int8_dense *a, int64_t first, int64_t count, int8_t *rows,
                       const int form, const int size) {
#ifdef X86
    if (has_avx2(form) && size == BYTES && a->features.lanes == LANES) {
        gather_atoms_avx2(a, first, count, rows);
        return;
    }
#endif
    if (a->features.lanes == 16)
        gather(a, first, count, rows, 16, form, size);
    else if (a->features.lanes == 8)
        gather(a, first, count, rows, 8, form, size);
    else
        gather(a, first, count, rows, a->features.lanes, form, size);
}

#endif
