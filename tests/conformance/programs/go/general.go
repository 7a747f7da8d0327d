// A client in Go of the RKNN C API: the calls of one inference on each of several goroutines.
//
//	general MODEL INPUT OUTPUT
//
// INPUT holds float32 NHWC values of the model's first input; OUTPUT gets float32 values of its
// first output. Go has no conversion to an enumeration but those that the program writes.
package main

/*
#cgo LDFLAGS: -lrknnrt
#include <stdlib.h>
#include "rknn_api.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

const goroutines = 4

func require(code C.int, call string) {
	if code != C.RKNN_SUCC {
		panic(fmt.Sprintf("%s: %d", call, code))
	}
}

func infer(model string, values []byte) []byte {
	path := C.CString(model)
	defer C.free(unsafe.Pointer(path))
	var context C.rknn_context
	require(C.rknn_init(&context, unsafe.Pointer(path), 0, 0, nil), "rknn_init")
	defer func() { require(C.rknn_destroy(context), "rknn_destroy") }()
	require(C.rknn_set_core_mask(context, C.rknn_core_mask(C.RKNN_NPU_CORE_AUTO)), "rknn_set_core_mask")
	var number C.rknn_input_output_num
	size := C.uint32_t(unsafe.Sizeof(number))
	require(C.rknn_query(context, C.rknn_query_cmd(C.RKNN_QUERY_IN_OUT_NUM), unsafe.Pointer(&number), size), "rknn_query")

	copied := C.CBytes(values)
	defer C.free(copied)
	input := C.rknn_input{buf: copied, size: C.uint32_t(len(values)), fmt: C.RKNN_TENSOR_NHWC}
	input._type = C.RKNN_TENSOR_FLOAT32
	require(C.rknn_inputs_set(context, 1, &input), "rknn_inputs_set")
	require(C.rknn_run(context, nil), "rknn_run")
	outputs := make([]C.rknn_output, number.n_output)
	for i := range outputs {
		outputs[i].index = C.uint32_t(i)
		outputs[i].want_float = 1
	}
	require(C.rknn_outputs_get(context, number.n_output, &outputs[0], nil), "rknn_outputs_get")
	result := C.GoBytes(outputs[0].buf, C.int(outputs[0].size))
	require(C.rknn_outputs_release(context, number.n_output, &outputs[0]), "rknn_outputs_release")
	return result
}

func main() {
	values, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	results := make([][]byte, goroutines)
	var group sync.WaitGroup
	for i := range results {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results[i] = infer(os.Args[1], values)
		}(i)
	}
	group.Wait()
	for _, result := range results {
		if !bytes.Equal(result, results[0]) {
			panic("goroutines have different results")
		}
	}
	if err := os.WriteFile(os.Args[3], results[0], 0o644); err != nil {
		panic(err)
	}
}
