/* What is called in which order; runs with their extensions; times. */
#include "walk.h"

static const char *sign(int64_t number) { return number > 0 ? ">0" : number ? "<0" : "0"; }

static void query_time(rknn_context context, const char *when) {
    rknn_perf_run time = {0};
    CALL(rknn_query(context, RKNN_QUERY_PERF_RUN, &time, sizeof time), "PERF_RUN %s", when);
    note("run_duration is %s", sign(time.run_duration));
}

void walk_order(void) {
    rknn_output outputs[MOST_TENSORS], again[MOST_TENSORS];
    rknn_run_extend extend;
    rknn_context context = opened(0);
    uint32_t number = counts(context).n_output;
    CALL(rknn_wait(context, NULL), "rknn_wait before anything");
    CALL(rknn_run(context, NULL), "rknn_run before rknn_inputs_set");
    rknn_destroy(context);
    context = opened(0);
    fill_outputs(context, outputs);
    CALL(rknn_outputs_get(context, number, outputs, NULL), "rknn_outputs_get before rknn_run");
    CALL(rknn_outputs_release(context, number, outputs), "rknn_outputs_release before rknn_run");
    query_time(context, "before rknn_run");
    CALL(feed(context), "rknn_inputs_set");
    fill_outputs(context, outputs);
    CALL(rknn_outputs_get(context, number, outputs, NULL), "rknn_outputs_get before rknn_run, set");
    CALL(rknn_run(context, NULL), "rknn_run");
    query_time(context, "after rknn_run");
    fill_outputs(context, outputs);
    fill_outputs(context, again);
    CALL(rknn_outputs_get(context, number, outputs, NULL), "rknn_outputs_get");
    note("buf is %s", presence(outputs[0].buf));
    note("size %u", outputs[0].size);
    query_time(context, "after rknn_outputs_get");
    CALL(rknn_outputs_get(context, number, again, NULL), "rknn_outputs_get once more");
    note("buf is %s", again[0].buf == outputs[0].buf ? "the same" : "another");
    CALL(rknn_outputs_release(context, number, outputs), "rknn_outputs_release");
    note("buf is %s", presence(outputs[0].buf));
    note("size %u", outputs[0].size);
    CALL(rknn_run(context, NULL), "rknn_run with the same inputs");
    CALL(rknn_run(context, NULL), "rknn_run without rknn_outputs_get");
    CALL(rknn_wait(context, NULL), "rknn_wait, extend NULL");
    memset(&extend, 0, sizeof extend);
    CALL(rknn_wait(context, &extend), "rknn_wait, extend of zeros");
    note("frame_id is %" PRIu64, extend.frame_id);
    CALL(rknn_destroy(context), "rknn_destroy, outputs not released");
}

void walk_release(void) {
    rknn_output outputs[MOST_TENSORS];
    rknn_context context = opened(0);
    uint32_t number = counts(context).n_output;
    feed(context);
    rknn_run(context, NULL);
    fill_outputs(context, outputs);
    CALL(rknn_outputs_release(context, number, NULL), "rknn_outputs_release NULL");
    CALL(rknn_outputs_release(context, 0, outputs), "rknn_outputs_release, none");
    CALL(rknn_outputs_release(context, 99, outputs), "rknn_outputs_release, 99");
    rknn_outputs_get(context, number, outputs, NULL);
    CALL(rknn_outputs_release(context, number, outputs), "rknn_outputs_release");
    CALL(rknn_outputs_release(context, number, outputs), "rknn_outputs_release once more");
}

static void run_frames(rknn_context context) {
    for (int frame = 0; frame < 4; frame++) {
        rknn_run_extend extend;
        rknn_output_extend result = {.frame_id = 77};
        rknn_output outputs[MOST_TENSORS];
        uint32_t number = counts(context).n_output;
        memset(&extend, 0, sizeof extend);
        extend.frame_id = 1000;
        fill_outputs(context, outputs);
        CALL(rknn_run(context, &extend), "rknn_run %d, extend", frame);
        note("frame_id=%" PRIu64 " non_block=%d timeout_ms=%d fence_fd=%d", extend.frame_id,
             extend.non_block, extend.timeout_ms, extend.fence_fd);
        CALL(rknn_outputs_get(context, number, outputs, &result), "rknn_outputs_get %d", frame);
        note("frame_id=%" PRIu64, result.frame_id);
        rknn_outputs_release(context, number, outputs);
    }
}

static void run_with(rknn_context context, const char *what, int non_block, int timeout,
                     int fence) {
    rknn_run_extend extend;
    memset(&extend, 0, sizeof extend);
    extend.non_block = non_block;
    extend.timeout_ms = timeout;
    extend.fence_fd = fence;
    CALL(rknn_run(context, &extend), "rknn_run, %s", what);
}

void walk_runs(void) {
    rknn_context context = opened(0);
    rknn_output outputs[MOST_TENSORS];
    rknn_run_extend extend;
    feed(context);
    run_frames(context);
    run_with(context, "timeout_ms 60000", 0, 60000, 0);
    run_with(context, "timeout_ms -5", 0, -5, 0);
    run_with(context, "timeout_ms the largest", 0, INT32_MAX, 0);
    run_with(context, "non_block 7", 7, 0, 0);
    run_with(context, "fence_fd 5 without its flag", 0, 0, 5);
    memset(&extend, 0, sizeof extend);
    extend.non_block = 1;
    CALL(rknn_run(context, &extend), "rknn_run, non_block");
    note("frame_id=%" PRIu64 " fence_fd=%d", extend.frame_id, extend.fence_fd);
    CALL(rknn_wait(context, &extend), "rknn_wait");
    CALL(rknn_wait(context, &extend), "rknn_wait once more");
    CALL(rknn_wait(context, NULL), "rknn_wait, extend NULL");
    CALL(rknn_run(context, &extend), "rknn_run, non_block, second");
    CALL(rknn_run(context, &extend), "rknn_run, non_block, while it runs");
    CALL(feed(context), "rknn_inputs_set while it runs");
    fill_outputs(context, outputs);
    CALL(rknn_outputs_get(context, counts(context).n_output, outputs, NULL),
         "rknn_outputs_get after non_block");
    CALL(rknn_destroy(context), "rknn_destroy");
}

static void query_profile(rknn_context context, const char *when, uint32_t flags) {
    rknn_perf_detail detail;
    memset(&detail, 0, sizeof detail);
    CALL(rknn_query(context, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail),
         "PERF_DETAIL %s, flags %u", when, flags);
    note("perf_data is %s, data_len %s", presence(detail.perf_data),
         sign((int64_t)detail.data_len));
    if (detail.perf_data)
        note("data_len is %s", detail.data_len == strlen(detail.perf_data) ? "the text's" : "other");
}

void walk_profile(void) {
    static const uint32_t flags[] = {0, RKNN_FLAG_COLLECT_PERF_MASK};
    for (int place = 0; place < 2; place++) {
        rknn_output outputs[MOST_TENSORS];
        rknn_context context = opened(flags[place]);
        query_profile(context, "before rknn_run", flags[place]);
        feed(context);
        rknn_run(context, NULL);
        query_profile(context, "after rknn_run", flags[place]);
        fill_outputs(context, outputs);
        rknn_outputs_get(context, counts(context).n_output, outputs, NULL);
        query_profile(context, "after rknn_outputs_get", flags[place]);
        query_time(context, "with a profile");
        CALL(rknn_destroy(context), "rknn_destroy");
    }
}
