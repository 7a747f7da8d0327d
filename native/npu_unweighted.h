/* int8 tasks without weights, for npu.c: stages alone, a table of all bytes, pooling, atoms moved. */
#ifndef ANYNPU_NPU_UNWEIGHTED_H
#define ANYNPU_NPU_UNWEIGHTED_H

#include <stdint.h>
#include <string.h>

#include "npu_stages_plain.h"

INLINE void process(const struct process *a, int64_t first, int64_t end, const int lanes,
                    const int form) {
    const struct features *f = &a->features;
    const int64_t pixels = f->height * f->width;
    int32_t v[BLOCK * LANES];
    for (int64_t s = first; s < end; s++) {
        const uint8_t *surface = surface_of(f, s);
        int64_t y = 0, x = 0;
        for (int64_t done = 0; done < pixels; done += BLOCK) {
            const int64_t n = pixels - done < BLOCK ? pixels - done : BLOCK;
            for (int64_t i = 0; i < n; i++) {
                int8_t atom[LANES];
                memcpy(atom, surface + y * f->line + x * f->pixel, lanes);
                for (int l = 0; l < lanes; l++)
                    v[i * lanes + l] = atom[l];
                if (++x == f->width)
                    x = 0, y++;
            }
            finish(&a->dpu, &a->writer, s, done, n, v, lanes, form);
        }
    }
}

INLINE void remap(const struct remap *a, int64_t first, int64_t end, const int lanes) {
    const struct features *f = &a->features;
    int8_t q[BLOCK * LANES];
    for (int64_t s = first; s < end; s++)
        for (int64_t y = 0; y < f->height; y++)
            for (int64_t x = 0; x < f->width; x += BLOCK) {
                const int64_t n = f->width - x < BLOCK ? f->width - x : BLOCK;
                const int8_t *atom = (const int8_t *)surface_of(f, s) + y * f->line + x * f->pixel;
                for (int64_t i = 0; i < n; i++, atom += f->pixel)
                    for (int l = 0; l < lanes; l++)
                        q[i * lanes + l] = a->values[atom[l] + 128];
                store(&a->writer, s, y * f->width + x, n, q, lanes);
            }
}

/* Take the greater of both, or with `sign` -1 the lesser. */
INLINE void choose(int8_t *best, const uint8_t *atoms, int64_t sign, const int lanes) {
    int8_t atom[LANES];
    memcpy(atom, atoms, lanes);
    if (sign > 0)
        for (int l = 0; l < lanes; l++)
            best[l] = best[l] < atom[l] ? atom[l] : best[l];
    else
        for (int l = 0; l < lanes; l++)
            best[l] = best[l] > atom[l] ? atom[l] : best[l];
}

INLINE void choose_in_window(const struct pool *a, int64_t s, int64_t oy, int64_t ox, int8_t *best,
                             const int lanes) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t top = oy * k->stride_y - k->top, left = ox * k->stride_x - k->left;
    const int64_t below = top + k->height < f->height ? top + k->height : f->height;
    const int64_t right = left + k->width < f->width ? left + k->width : f->width;
    int8_t found[LANES];
    memset(found, a->sign > 0 ? -128 : 127, sizeof found);
    for (int64_t y = top < 0 ? 0 : top; y < below; y++)
        for (int64_t x = left < 0 ? 0 : left; x < right; x++)
            choose(found, f->base + s * f->surface + y * f->line + x * f->pixel, a->sign, lanes);
    memcpy(best, found, lanes);
}

/* Rows of results, one surface after the other. */
INLINE void pool(const struct pool *a, int64_t first, int64_t end, const int lanes) {
    const struct window *k = &a->window;
    int8_t q[BLOCK * LANES];
    for (int64_t row = first; row < end; row++) {
        const int64_t s = row / k->out_height, oy = row % k->out_height;
        for (int64_t ox = 0; ox < k->out_width; ox += BLOCK) {
            const int64_t n = k->out_width - ox < BLOCK ? k->out_width - ox : BLOCK;
            for (int64_t i = 0; i < n; i++)
                choose_in_window(a, s, oy, ox + i, q + i * lanes, lanes);
            store(&a->writer, s, oy * k->out_width + ox, n, q, lanes);
        }
    }
}

/* Rows, one surface after the other. */
INLINE void move(const struct move *a, int64_t first, int64_t end, const int atom) {
    for (int64_t row = first; row < end; row++) {
        const int64_t s = row / a->rows, y = row % a->rows;
        const uint8_t *source = a->source + s * a->source_strides[0] + y * a->source_strides[1];
        uint8_t *target = a->target + s * a->target_strides[0] + y * a->target_strides[1];
        for (int64_t x = 0; x < a->pixels; x++)
            memcpy(target + x * a->target_strides[2], source + x * a->source_strides[2], atom);
    }
}

#endif
