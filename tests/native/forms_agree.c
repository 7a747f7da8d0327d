/* Random int8 convolutions, dense and channel by channel, in every form that there is: sums and outputs are
 * those of plain C.
 *
 * A program for test_forms_agree.py, which builds it for other processors too. It prints the forms, and
 * ends with 1 where one differs. */
#include "npu.c"

#include <stdio.h>
#include <stdlib.h>

enum { CASES = 120, MOST_BYTES = 1 << 18 };

static uint32_t state = 1;

static int between(int low, int high) {
    state = state * 1664525 + 1013904223;
    return low + (int)((state >> 8) % (uint32_t)(high - low + 1));
}

static void randomize(int8_t *bytes, int64_t count) {
    /* Extremes now and then: products of four of them are the largest. */
    const int extreme = between(0, 3);
    for (int64_t i = 0; i < count; i++)
        bytes[i] = (int8_t)(extreme ? between(-128, 127) : between(0, 1) ? 127 : -128);
}

/* Room for what kernels read and write. */
static int8_t image[MOST_BYTES], weights[MOST_BYTES * 4], rows[2 * MOST_BYTES];
static int8_t outputs[FORMS][MOST_BYTES];
static int32_t sums[FORMS][MOST_BYTES];
static int16_t offsets[256];
static int64_t scratch[MOST_BYTES];

static double numbers_of[4][256];
static int8_t operand[MOST_BYTES];

/* A number a channel, of those that a register holds. */
static struct operand random_numbers(int which, int most) {
    for (int i = 0; i < 256; i++)
        numbers_of[which][i] = between(-most, most);
    return (struct operand){.values = numbers_of[which]};
}

static struct stage random_stage(int which, int shift) {
    struct stage s = {.lowest = -HUGE_VAL, .highest = HUGE_VAL};
    s.add = random_numbers(which, 5000), s.multiply = random_numbers(which + 1, 16384);
    s.positive = s.negative = 1.0 / (1 << shift);
    return s;
}

/* Stages in each of the ways through them, the short ones as anynpu takes them. */
static void random_stages(struct int8_dense *a) {
    static const int ways[] = {NOTHING, SPLIT | LEAK, LEAK, SECOND, ADDITION};
    struct dpu *d = &a->dpu;
    const int shift = between(8, 14), way = ways[between(0, 4)];
    d->lowest = -HUGE_VAL, d->highest = HUGE_VAL;
    d->scale = 1.0 / (1 << between(4, 14)), d->offset = between(-20, 20);
    d->has_bs = between(0, 4) != 0, d->bs = random_stage(0, shift), d->bn = random_stage(2, 12);
    d->operand = (struct features){.base = (const uint8_t *)operand, .width = a->window.out_width};
    d->operand.pixel = a->writer.lanes, d->operand.line = a->writer.line;
    d->operand.surface = a->writer.surface;
    d->operand_scale = between(1, 64) / 16.0, d->operand_offset = between(-128, 127);
    d->product = 1.0 / 512;
    if (!d->has_bs || !between(0, 2)) { /* any stages */
        d->has_bn = between(0, 1);
        d->bs.only_negatives = between(0, 1), d->bn.only_negatives = between(0, 1);
        d->bs.multiply_first = between(0, 1), d->bn.multiply_first = between(0, 1);
        d->bs.negative /= 1 << between(0, 2);
        d->operation = between(NONE, MULTIPLY), d->operand_away = between(0, 1);
        d->output_away = between(0, 1);
        d->has_limits = between(0, 1);
        if (d->has_limits)
            d->lowest = between(-900, 0), d->highest = between(0, 900);
    } else if (!between(0, 2)) {
        d->short_way.is_positive = 1, d->short_way.is_whole = between(0, 1);
        d->bs.lowest = 0, d->bs.highest = between(0, 1) ? HUGE_VAL : between(0, 9000);
    } else {
        d->short_way.is_linear = 1, d->short_way.follow = way;
        d->short_way.is_whole = way != SECOND && between(0, 1);
        d->bs.negative /= way & SPLIT ? 4 : 1;
        d->has_bn = (way & (LEAK | SECOND)) != 0;
        d->bn.only_negatives = way == LEAK || way == (SPLIT | LEAK), d->bn.multiply_first = 1;
        if (d->bn.only_negatives) {
            memset(numbers_of[2], 0, sizeof numbers_of[2]);
            d->bn.positive = d->bn.negative = 1;
            d->bn.lowest = INT32_MIN, d->bn.highest = INT32_MAX;
        }
        d->operation = way == ADDITION ? ADD : NONE, d->has_limits = way == ADDITION;
        if (d->has_limits)
            d->lowest = between(0, 1) ? 0 : INT32_MIN, d->highest = INT32_MAX;
    }
}

static struct int8_dense random_case(void) {
    struct int8_dense a = {0};
    const int lanes = between(0, 1) ? 16 : 8, kernels = between(1, 40), channels = between(1, 60);
    struct features *f = &a.features;
    struct window *k = &a.window;
    struct writer *w = &a.writer;
    *f = (struct features){.lanes = lanes, .channels = channels, .valid = channels};
    f->surfaces = (channels + lanes - 1) / lanes;
    f->height = between(3, 9), f->width = between(3, 9);
    f->pixel = lanes, f->line = f->width * lanes, f->surface = f->height * f->line;
    f->base = (const uint8_t *)image, f->readable = f->surfaces * f->surface;
    *k = (struct window){.height = between(1, 3),
                         .width = between(1, 3),
                         .stride_y = between(1, 2),
                         .stride_x = between(1, 2),
                         .dilation_y = 1,
                         .dilation_x = 1};
    if (f->height > 4 && f->width > 4)
        k->dilation_y = between(1, 2), k->dilation_x = between(1, 2);
    k->top = between(0, 1), k->left = between(0, 1);
    if (!between(0, 3))
        *k = (struct window){1, 1, 1, 1, 1, 1};
    k->padding = between(0, 3) ? between(-128, 127) : between(-300, 300);
    k->out_height =
        (f->height + 2 * k->top - (k->height - 1) * k->dilation_y - 1) / k->stride_y + 1;
    k->out_width = (f->width + 2 * k->left - (k->width - 1) * k->dilation_x - 1) / k->stride_x + 1;
    a.pixels = k->out_height * k->out_width;
    a.tile = a.pixels;
    a.channels = channels;
    a.depth = (k->height * k->width * f->surfaces * lanes + 7) / 8 * 8;
    a.is_packed = f->surfaces == 1 && channels == lanes && k->dilation_x == 1;
    a.stride = (a.depth + 16 + 15) / 16 * 16;
    a.weights = weights, a.offsets = offsets, a.rows = rows;
    a.truncate = between(0, 2), a.truncate_up = between(0, 1);
    *w = (struct writer){.pixel = lanes,
                         .line = k->out_width * lanes,
                         .group = 1,
                         .width = k->out_width,
                         .channels = kernels,
                         .lanes = lanes,
                         .padding = 0xFB};
    w->surface = w->group_stride = a.pixels * lanes;
    random_stages(&a);
    return a;
}

/* Whether each output pixel sees the input's pixel in its place, and no other one. */
static int sees_itself(const struct window *k) {
    return k->height * k->width * k->stride_y * k->stride_x == 1 && !k->top && !k->left;
}

/* Whether kernels are shared instead of pixels. */
static int shares_kernels(const struct int8_dense *a) {
    return a->pixels % 2;
}

static void run(struct int8_dense *a, int32_t form) {
    const int64_t groups = (a->writer.channels + COLUMNS - 1) / COLUMNS;
    anynpu_use_form(form);
    const int size = size_in_rows(a), lanes = (int)a->writer.lanes;
    memset(rows, 0x55, sizeof rows);
    anynpu_npu_gather(a, 0, a->pixels, scratch);
    for (int64_t group = 0; group < groups; group++) {
        const struct target t = {sums[form] + group * a->pixels * COLUMNS, lanes,
                                 lanes == COLUMNS ? COLUMNS / 2 : a->pixels * lanes};
#ifdef X86
        if (has_avx2(form)) {
            multiply_group(a, group, rows, a->pixels, (int16_t *)scratch, t, AVX2, size);
            continue;
        }
#endif
        multiply_group(a, group, rows, a->pixels, (int16_t *)scratch, t, PLAIN, size);
    }
    a->writer.base = (uint8_t *)outputs[form];
    a->is_pointwise = lanes == LANES && sees_itself(&a->window);
    if (shares_kernels(a)) {
        anynpu_npu_gather(a, 0, a->pixels, scratch);
        anynpu_npu_convolve_kernels(a, 0, groups, scratch);
    } else
        anynpu_npu_convolve_pixels(a, 0, a->pixels, scratch);
    a->is_pointwise = 0;
}

static int16_t pairs[MOST_BYTES];

/* The same channel by channel; a pair's second column counts even where the kernel ends before it. */
static struct int8_depthwise depthwise_case(const struct int8_dense *dense) {
    struct int8_depthwise a = {dense->dpu, dense->writer, dense->features, dense->window};
    const struct window *k = &a.window;
    const int64_t dilation = 2 * k->dilation_x;
    a.writer.channels = a.features.channels;
    a.weights = pairs, a.pairs = (k->width + 1) / 2;
    for (int i = 0; i < MOST_BYTES; i++)
        pairs[i] = (int16_t)between(-255, 255);
    const int64_t step = dilation % k->stride_x == 0 ? k->stride_x : 1;
    a.apart = k->stride_x / step, a.pair = dilation / step;
    a.columns = (k->out_width - 1) * a.apart + (a.pairs - 1) * a.pair + 1;
    a.reach = a.columns * k->dilation_y;
    a.band = between(1, (int)k->out_height);
    a.truncate = dense->truncate, a.truncate_up = dense->truncate_up;
    return a;
}

static void run_depthwise(struct int8_depthwise *a, int32_t form) {
    const int64_t bands = (a->window.out_height + a->band - 1) / a->band;
    anynpu_use_form(form);
    a->writer.base = (uint8_t *)outputs[form];
    anynpu_npu_convolve_depthwise(a, 0, a->features.surfaces * bands, scratch);
}

static int agree(int32_t form, int number) {
    int equal = 1;
    for (int64_t i = 0; i < MOST_BYTES && equal; i++)
        if (sums[form][i] != sums[PLAIN][i] || outputs[form][i] != outputs[PLAIN][i]) {
            printf("%s differs in case %d at %lld: sums %d, %d, outputs %d, %d\n", forms[form].name,
                   number, (long long)i, (int)sums[PLAIN][i], (int)sums[form][i], outputs[PLAIN][i],
                   outputs[form][i]);
            equal = 0;
        }
    return equal;
}

int main(void) {
    int equal = 1;
    for (int32_t form = 0; form < FORMS; form++)
        if (anynpu_form_name(form))
            printf("%s\n", anynpu_form_name(form));
    for (int number = 0; number < CASES; number++) {
        struct int8_dense a = random_case();
        randomize(image, sizeof image);
        randomize(operand, sizeof operand);
        randomize(weights, sizeof weights);
        for (int i = 0; i < 256; i++)
            offsets[i] = (int16_t)between(-128, 128);
        for (int32_t form = 0; form < FORMS; form++)
            if (anynpu_form_name(form)) {
                run(&a, form);
                equal &= agree(form, number);
            }
        struct int8_depthwise depthwise = depthwise_case(&a);
        for (int32_t form = 0; form < FORMS; form++)
            if (anynpu_form_name(form)) {
                run_depthwise(&depthwise, form);
                equal &= agree(form, number);
            }
    }
    return !equal;
}
