/* The NPU's arithmetic on channel blocks of any element: what the reference does with NumPy, in one pass.
 *
 * Plain C11, built without contraction of a * b + c. For floats every operation is the reference's, in
 * its order: sums are float32, one product after the other, place by place and channel by channel;
 * stages are float32, tables double. Where both factors are float16 a product is exact in float32, so
 * there a fused multiplication and addition gives the same bits. For integers, what npu.c doesn't take:
 * sums of a chunk of products are float32 and whole, totals and stages double, which callers prove exact.
 *
 * Whatever lanes an atom has, values between memory and memory are (pixels, GROUP) floats. Nothing is
 * allocated, and weights stay as the file has them. Kernels are those of steps.c: arguments, the first
 * unit of work, the one past the last, the thread's own space.
 *
 * Memory is only touched where the arguments say: whole atoms of features and rows of pictures, weights,
 * operands and what is written, each as the view of these strides and counts that callers have found to
 * lie inside. Arrays that have an entry a channel are filled up to whole groups.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "npu_general_depthwise.h"
#include "npu_general_few.h"
#include "npu_general_finish.h"
#include "npu_general_integers.h"
#include "npu_general_products.h"
#include "npu_general_rows.h"
#include "npu_general_weights.h"

/* ------------------------------------------------------------------------------------- dense products */

/* One group's sums of `pixels` rows, continued from chunk to chunk; or, for integers, added up as
 * doubles from chunk to chunk. */
static void multiply_group(const struct weights *weights, const struct window *k, int64_t channels,
                           int64_t g, const float *rows, int64_t depth, int64_t pixels,
                           int64_t fused, float *panel, float *sums, double *totals) {
    const int64_t seen = k->height * k->width * channels;
    const struct lines one = {1, 0};
    for (int64_t p = 0; p < seen; p += CHUNK) {
        const int64_t n = least(seen - p, CHUNK);
        pack(weights, k, channels, g, p, p + n, panel);
        multiply(rows + p, depth, one, panel, n, sums, pixels, fused, totals || !p);
        for (int64_t i = 0; totals && i < pixels * GROUP; i++)
            totals[i] = p ? totals[i] + sums[i] : sums[i];
    }
}

INLINE void count_endless_inline(const float *v, int64_t count, int64_t *endless) {
    for (int64_t i = 0; i < count; i++)
        *endless += (bits_of_float(v[i]) & 0x7F800000) == 0x7F800000;
}

IN_EACH_FORM(count_endless, (const float *v, int64_t count, int64_t *endless), (v, count, endless))

/* Some places of what kernels see, and their factors. */
struct section {
    int64_t first, count;
};

/* Places of a panel without the first and last ones whose factors are all zero. Sums begin with a positive
 * zero, which no product with zero changes, unless a value is no finite number; `are_finite` remembers
 * whether these rows' are, and is negative before somebody has looked. */
static struct section without_zeros(const struct dense *a, const float *rows, int64_t pixels,
                                    const float *panel, int64_t seen, int *are_finite) {
    static const float zeros[GROUP];
    const struct section all = {0, seen};
    int64_t from = 0, to = seen, endless = 0;
    /* A negative zero is none of these, which does no harm. */
    while (to > from && !memcmp(panel + (to - 1) * GROUP, zeros, sizeof zeros))
        to--;
    while (from < to && !memcmp(panel + from * GROUP, zeros, sizeof zeros))
        from++;
    if (to - from > seen / 2) /* Looking at the values takes time too. */
        return all;
    for (int64_t i = 0; *are_finite < 0 && i < pixels; i++)
        count_endless(rows + i * a->depth, seen, &endless);
    if (*are_finite < 0)
        *are_finite = !endless;
    return *are_finite ? (struct section){from, to - from} : all;
}

/* Groups `from` to `to` of some pixels. `scratch` takes the totals of integers, a panel and the sums. */
static void multiply_groups(const struct dense *a, int64_t from, int64_t to, int64_t first,
                            int64_t pixels, const float *rows, void *scratch) {
    double *totals = a->dpu.is_integer ? scratch : NULL;
    const struct window *k = &a->window;
    const int64_t seen = k->height * k->width * a->features.channels;
    float *panel = totals ? (float *)(totals + a->together * GROUP) : scratch;
    float *sums = panel + CHUNK * GROUP;
    const struct lines one = {1, 0};
    int are_finite = -1;
    struct finish how;
    for (int64_t g = from; g < to; g++) {
        struct section used = {0, 0};
        begin_finish(&a->dpu, &a->writer, g, &how);
        if (seen <= CHUNK && !totals) {
            pack(&a->weights, k, a->features.channels, g, 0, seen, panel);
            used = without_zeros(a, rows, pixels, panel, seen, &are_finite);
        }
        for (int64_t done = 0; done < pixels; done += a->together) {
            const int64_t n = least(pixels - done, a->together);
            const float *own = rows + done * a->depth;
            if (seen <= CHUNK && !totals)
                multiply(own + used.first, a->depth, one, panel + used.first * GROUP, used.count,
                         sums, n, a->fused, 1);
            else
                multiply_group(&a->weights, k, a->features.channels, g, own, a->depth, n, a->fused,
                               panel, sums, totals);
            if (totals) {
                truncate_sums(totals, n * GROUP, a->truncate, a->truncate_up);
                finish_integers(&a->dpu, &a->writer, g, first + done, n, totals);
            } else
                finish(&how, first + done, n, sums);
        }
    }
}

/* Rows [first, end) of the padded input, all channels of a pixel side by side. */
static void spread_rows(const struct dense *a, int64_t first, int64_t end, float *rows) {
    const struct features *f = &a->features;
    const struct window *k = &a->window;
    const int64_t channels = f->channels, left = least(k->left, a->columns);
    const int64_t n = least(f->width, a->columns - left), right = left + n;
    const int is_packed = f->pixel == channels * size_of(f->element) && f->valid >= channels;
    for (; first < end; first++, rows += a->depth) {
        const int64_t y = first - k->top;
        if (y < 0 || y >= f->height) {
            fill(rows, channels, a->columns, channels, k->padding);
            continue;
        }
        fill(rows, channels, left, channels, k->padding);
        if (is_packed)
            widen(f->base + y * f->line, 0, 1, rows + left * channels, 0, n * channels, f->element);
        else
            gather_pixels(f, y, 0, 1, n, rows + left * channels, channels);
        fill(rows + right * channels, channels, a->columns - right, channels, k->padding);
    }
}

/* `count` whole output rows from number `first` on, from the input as it lies there. The panel holds what was
 * packed for the group `packed`, and is kept. */
static void multiply_lines(const struct dense *a, int64_t first, int64_t count, void *scratch,
                           int64_t *packed) {
    const struct window *k = &a->window;
    const int64_t channels = a->features.channels,
                  groups = (a->writer.channels + GROUP - 1) / GROUP;
    const int64_t reach = (k->height - 1) * k->dilation_y + 1, width = k->out_width;
    const struct lines lines = {k->height, k->dilation_y * a->depth};
    float *panel = scratch, *sums = panel + CHUNK * GROUP, *rows = sums + width * GROUP;
    spread_rows(a, first * k->stride_y, (first + count - 1) * k->stride_y + reach, rows);
    struct finish how;
    for (int64_t g = 0; g < groups; g++) {
        begin_finish(&a->dpu, &a->writer, g, &how);
        if (g != *packed)
            pack(&a->weights, k, channels, g, 0, k->height * k->width * channels, panel);
        *packed = g;
        if (multiplied_few(a, first, count, rows, panel))
            continue;
        for (int64_t i = 0; i < count; i++) {
            multiply(rows + i * k->stride_y * a->depth, k->stride_x * channels, lines, panel,
                     k->width * channels, sums, width, a->fused, 1);
            finish(&how, (first + i) * width, width, sums);
        }
    }
}

EXPORT void anynpu_npu_general_lines(const void *arguments, int64_t first, int64_t end,
                                     void *scratch) {
    const struct dense *a = arguments;
    int64_t packed = -1;
    for (; first < end; first += a->tile)
        multiply_lines(a, first, least(end - first, a->tile), scratch, &packed);
}

EXPORT void anynpu_npu_general_gather(const void *arguments, int64_t first, int64_t end,
                                      void *scratch) {
    const struct dense *a = arguments;
    gather(&a->features, &a->window, first, end - first, a->rows + first * a->depth, a->depth);
    (void)scratch;
}

EXPORT void anynpu_npu_general_dense(const void *arguments, int64_t first, int64_t end,
                                     void *scratch) {
    const struct dense *a = arguments;
    const int64_t all = a->window.out_height * a->window.out_width;
    const int64_t parts = (all + a->tile - 1) / a->tile;
    for (; a->rows && first < end; first++) {
        const int64_t g = first / parts, from = first % parts * a->tile;
        multiply_groups(a, g, g + 1, from, least(all - from, a->tile), a->rows + from * a->depth,
                        scratch);
    }
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    float *rows = (float *)scratch + (CHUNK + a->together * (a->dpu.is_integer ? 3 : 1)) * GROUP;
    for (; first < end; first += a->tile) {
        const int64_t pixels = least(end - first, a->tile);
        gather(&a->features, &a->window, first, pixels, rows, a->depth);
        multiply_groups(a, 0, groups, first, pixels, rows, scratch);
    }
}

/* ------------------------------------------------------------------------------- channel by channel */

EXPORT void anynpu_npu_general_depthwise(const void *arguments, int64_t first, int64_t end,
                                         void *scratch) {
    const struct depthwise *a = arguments;
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    for (int64_t g = a->by_rows ? 0 : first; g < (a->by_rows ? groups : end); g++)
        if (a->by_rows)
            see_rows(a, g, first, end, scratch);
        else
            see_rows(a, g, 0, a->window.out_height, scratch);
}

/* ------------------------------------------------------------------------------- features as they are */

static void process_group(const struct process *a, int64_t g, int64_t first, int64_t end) {
    ALIGNED float v[BLOCK * GROUP];
    double whole[BLOCK * GROUP];
    struct finish how;
    begin_finish(&a->dpu, &a->writer, g, &how);
    for (; first < end; first += BLOCK) {
        const int64_t n = least(end - first, BLOCK);
        load(&a->features, g, first, n, v);
        if (!a->dpu.is_integer) {
            finish(&how, first, n, v);
            continue;
        }
        for (int64_t i = 0; i < n * GROUP; i++)
            whole[i] = v[i];
        if (a->features.element == INT32)
            load_words(&a->features, g, first, n, whole);
        finish_integers(&a->dpu, &a->writer, g, first, n, whole);
    }
}

EXPORT void anynpu_npu_general_process(const void *arguments, int64_t first, int64_t end,
                                       void *scratch) {
    const struct process *a = arguments;
    const int64_t groups = (a->writer.channels + GROUP - 1) / GROUP;
    for (int64_t g = a->by_groups ? first : 0; g < (a->by_groups ? end : groups); g++)
        if (a->by_groups)
            process_group(a, g, 0, a->features.height * a->features.width);
        else
            process_group(a, g, first, end);
    (void)scratch;
}

EXPORT void anynpu_npu_general_reduce(const void *arguments, int64_t first, int64_t end,
                                      void *scratch) {
    const struct reduction *a = arguments;
    const int is_greatest = a->sign > 0;
    ALIGNED float v[BLOCK * GROUP], best[BLOCK];
    for (; first < end; first += BLOCK) {
        const int64_t n = least(end - first, BLOCK);
        for (int64_t i = 0; i < n; i++)
            best[i] = is_greatest ? -INFINITY : INFINITY;
        for (int64_t g = 0; g * GROUP < a->features.channels; g++) {
            const int64_t lanes = least(GROUP, a->features.channels - g * GROUP);
            load(&a->features, g, first, n, v);
            run_stages(&a->dpu, g, first, n, v);
            for (int64_t i = 0; i < n; i++)
                for (int64_t l = 0; l < lanes; l++) {
                    const float x = v[i * GROUP + l];
                    best[i] = (is_greatest ? best[i] < x : best[i] > x) || x != x ? x : best[i];
                }
        }
        for (int64_t i = 0; i < n; i++) {
            const uint16_t half = stored_half(best[i]);
            memcpy(a->target + (first + i) * 2, &half, sizeof half);
        }
    }
    for (int64_t i = a->pixels; end == a->pixels && i < a->filled; i++)
        memcpy(a->target + i * 2, a->target + (end - 1) * 2, 2);
    (void)scratch;
}
