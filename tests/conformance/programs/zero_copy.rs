//! A client in Rust of the small chips' runtime, which it opens by its place on a board.
//!
//!     zero_copy MODEL INPUT OUTPUT
//!
//! INPUT holds a picture, interleaved; OUTPUT gets those of its first output
//! as the device has them. Handles have 32 bits, as clients for these boards declare them.
use std::ffi::{c_char, c_int, c_void, CString};
use std::{env, fs, mem, ptr, slice};

const LIBRARY: &str = "/usr/lib/librknnmrt.so";
const NOW: c_int = 2;
const NATIVE_OUTPUT_ATTR: c_int = 9;
const NATIVE_NHWC_INPUT_ATTR: c_int = 10;
const FROM_DEVICE: c_int = 2;
const UINT8: c_int = 3;

#[repr(C)]
struct TensorAttr {
    index: u32,
    n_dims: u32,
    dims: [u32; 16],
    name: [c_char; 256],
    n_elems: u32,
    size: u32,
    format: c_int,
    kind: c_int,
    quantization: c_int,
    fl: i8,
    zero_point: i32,
    scale: f32,
    w_stride: u32,
    size_with_stride: u32,
    pass_through: u8,
    h_stride: u32,
}

#[repr(C)]
struct TensorMemory {
    address: *mut u8,
    physical: u64,
    fd: i32,
    offset: i32,
    size: u32,
    flags: u32,
    private: *mut c_void,
}

extern "C" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

unsafe fn function<F>(library: *mut c_void, name: &str) -> F {
    let name = CString::new(name).unwrap();
    let address = dlsym(library, name.as_ptr());
    assert!(!address.is_null(), "{name:?} is missing");
    mem::transmute_copy(&address)
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let model = fs::read(&arguments[1]).unwrap();
    let input = fs::read(&arguments[2]).unwrap();
    unsafe {
        let path = CString::new(LIBRARY).unwrap();
        let library = dlopen(path.as_ptr(), NOW);
        assert!(!library.is_null(), "{LIBRARY} can't be opened");
        type Init = unsafe extern "C" fn(*mut u32, *const u8, u32, u32, *const c_void) -> c_int;
        type Query = unsafe extern "C" fn(u32, c_int, *mut TensorAttr, u32) -> c_int;
        type Create = unsafe extern "C" fn(u32, u32) -> *mut TensorMemory;
        type Bind = unsafe extern "C" fn(u32, *mut TensorMemory, *mut TensorAttr) -> c_int;
        type Run = unsafe extern "C" fn(u32, *const c_void) -> c_int;
        type Sync = unsafe extern "C" fn(u32, *mut TensorMemory, c_int) -> c_int;
        type Release = unsafe extern "C" fn(u32, *mut TensorMemory) -> c_int;
        type Destroy = unsafe extern "C" fn(u32) -> c_int;
        let init: Init = function(library, "rknn_init");
        let query: Query = function(library, "rknn_query");
        let create: Create = function(library, "rknn_create_mem");
        let bind: Bind = function(library, "rknn_set_io_mem");

        // What lies beside a handle must stay as it was.
        let mut handles = [0u32, 0x5a5a_5a5a];
        let code = init(
            &mut handles[0],
            model.as_ptr(),
            model.len() as u32,
            0,
            ptr::null(),
        );
        assert_eq!(code, 0);
        let [context, beside] = handles;
        assert_eq!(beside, 0x5a5a_5a5a);

        let open = |command: c_int| {
            let mut attr: TensorAttr = mem::zeroed();
            assert_eq!(
                query(
                    context,
                    command,
                    &mut attr,
                    mem::size_of::<TensorAttr>() as u32
                ),
                0
            );
            if command == NATIVE_NHWC_INPUT_ATTR {
                attr.kind = UINT8; // pixels, which the device normalises
            }
            let memory = create(context, attr.size_with_stride);
            assert!(!memory.is_null());
            assert_eq!(bind(context, memory, &mut attr), 0);
            memory
        };
        let (source, result) = (open(NATIVE_NHWC_INPUT_ATTR), open(NATIVE_OUTPUT_ATTR));
        assert!(input.len() <= (*source).size as usize);
        ptr::copy_nonoverlapping(input.as_ptr(), (*source).address, input.len());
        assert_eq!(
            function::<Run>(library, "rknn_run")(context, ptr::null()),
            0
        );
        let sync: Sync = function(library, "rknn_mem_sync");
        assert_eq!(sync(context, result, FROM_DEVICE), 0);
        let bytes = slice::from_raw_parts((*result).address, (*result).size as usize);
        fs::write(&arguments[3], bytes).unwrap();
        for memory in [source, result] {
            assert_eq!(
                function::<Release>(library, "rknn_destroy_mem")(context, memory),
                0
            );
        }
        assert_eq!(function::<Destroy>(library, "rknn_destroy")(context), 0);
    }
}
