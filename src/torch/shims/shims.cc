// C++ code that inductor writes (AOTInductor packages, cpp_wrapper) calls these functions of
// libtorch_cpu instead of the dispatcher. This small library is loaded before it with RTLD_GLOBAL,
// so it is found first. It passes each call on and reports it. The signatures are those of
// torch/csrc/inductor/aoti_torch, which stay stable for the sake of packages.
#include "torch/shims/shims.h"

#include <dlfcn.h>

#include <initializer_list>

namespace {

using Handle = void*;  // AtenTensorHandle
using Status = int32_t;
using Argument = mfu_shim_argument;

void* torch_library = nullptr;
void (*tell)(const char*, const Argument*, size_t) = nullptr;
void (*pause_by)(int) = nullptr;

Argument tensor(Handle handle) {
  return {'t', handle, 0};
}
Argument tensor(const Handle* handle) {
  return handle != nullptr && *handle != nullptr ? tensor(*handle) : Argument{'a', nullptr, 0};
}
Argument result(const Handle* handle) {
  return {'r', handle != nullptr ? *handle : nullptr, 0};
}
Argument list(const int64_t* items, int64_t count) {
  return {'l', items, count};
}
Argument integer(int64_t value) {
  return {'i', nullptr, value};
}
Argument boolean(int32_t value) {
  return {'b', nullptr, value};
}
Argument skipped() {
  return {'a', nullptr, 0};
}

// torch's own function of that name. If nobody observes, it is looked up each time.
template <class Function>
Function* own(const char* name, Function*& known) {
  if (known == nullptr) {
    void* from = torch_library != nullptr ? torch_library : RTLD_NEXT;
    known = reinterpret_cast<Function*>(dlsym(from, name));
  }
  return known;
}

template <class... Parameters>
Status pass_on(const char* name, Status (*&known)(Parameters...), Parameters... arguments) {
  Status (*next)(Parameters...) = own(name, known);
  if (next == nullptr) return 1;  // AOTI_TORCH_FAILURE
  if (pause_by == nullptr) return next(arguments...);
  pause_by(1);
  Status status = next(arguments...);
  pause_by(-1);
  return status;
}

Status told(Status status, const char* name, std::initializer_list<Argument> arguments) {
  if (status == 0 && tell != nullptr) tell(name, arguments.begin(), arguments.size());
  return status;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void mfu_shims_connect(void* library, void (*done)(const char*, const Argument*, size_t),
                       void (*pause)(int)) {
  torch_library = library;
  tell = done;
  pause_by = pause;
}

Status aoti_torch_cpu_mm_out(Handle out, Handle a, Handle b) {
  static Status (*next)(Handle, Handle, Handle);
  return told(pass_on(__func__, next, out, a, b), "aten::mm", {tensor(a), tensor(b)});
}

Status aoti_torch_cpu_bmm_out(Handle out, Handle a, Handle b) {
  static Status (*next)(Handle, Handle, Handle);
  return told(pass_on(__func__, next, out, a, b), "aten::bmm", {tensor(a), tensor(b)});
}

Status aoti_torch_cpu__int_mm_out(Handle out, Handle a, Handle b) {
  static Status (*next)(Handle, Handle, Handle);
  return told(pass_on(__func__, next, out, a, b), "aten::_int_mm", {tensor(a), tensor(b)});
}

Status aoti_torch_cpu_addmm_out(Handle out, Handle self, Handle a, Handle b, double beta,
                                double alpha) {
  static Status (*next)(Handle, Handle, Handle, Handle, double, double);
  return told(pass_on(__func__, next, out, self, a, b, beta, alpha), "aten::addmm",
              {tensor(self), tensor(a), tensor(b)});
}

Status aoti_torch_cpu_baddbmm_out(Handle out, Handle self, Handle a, Handle b, double beta,
                                  double alpha) {
  static Status (*next)(Handle, Handle, Handle, Handle, double, double);
  return told(pass_on(__func__, next, out, self, a, b, beta, alpha), "aten::baddbmm",
              {tensor(self), tensor(a), tensor(b)});
}

Status aoti_torch_cpu__addmm_activation(Handle self, Handle a, Handle b, double beta, double alpha,
                                        int32_t use_gelu, Handle* made) {
  static Status (*next)(Handle, Handle, Handle, double, double, int32_t, Handle*);
  return told(pass_on(__func__, next, self, a, b, beta, alpha, use_gelu, made),
              "aten::_addmm_activation", {tensor(self), tensor(a), tensor(b)});
}

Status aoti_torch_cpu_convolution(Handle input, Handle weight, Handle* bias, const int64_t* stride,
                                  int64_t strides, const int64_t* padding, int64_t paddings,
                                  const int64_t* dilation, int64_t dilations, int32_t transposed,
                                  const int64_t* extra, int64_t extras, int64_t groups,
                                  Handle* made) {
  static Status (*next)(Handle, Handle, Handle*, const int64_t*, int64_t, const int64_t*, int64_t,
                        const int64_t*, int64_t, int32_t, const int64_t*, int64_t, int64_t,
                        Handle*);
  Status status = pass_on(__func__, next, input, weight, bias, stride, strides, padding, paddings,
                          dilation, dilations, transposed, extra, extras, groups, made);
  return told(status, "aten::convolution",
              {tensor(input), tensor(weight), tensor(bias), list(stride, strides),
               list(padding, paddings), list(dilation, dilations), boolean(transposed),
               list(extra, extras), integer(groups), result(made)});
}

Status aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu(Handle query, Handle key,
                                                                  Handle value, double dropout,
                                                                  int32_t is_causal, Handle* mask,
                                                                  double* scale, Handle* made,
                                                                  Handle* made1) {
  static Status (*next)(Handle, Handle, Handle, double, int32_t, Handle*, double*, Handle*,
                        Handle*);
  Status status =
      pass_on(__func__, next, query, key, value, dropout, is_causal, mask, scale, made, made1);
  return told(status, "aten::_scaled_dot_product_flash_attention_for_cpu",
              {tensor(query), tensor(key), tensor(value), skipped(), boolean(is_causal),
               tensor(mask), skipped()});
}

Status aoti_torch_cpu__linear_pointwise(Handle input, Handle weight, Handle* bias, const char* attr,
                                        const double** scalars, int64_t scalar_count,
                                        const char** algorithm, Handle* made) {
  static Status (*next)(Handle, Handle, Handle*, const char*, const double**, int64_t, const char**,
                        Handle*);
  Status status =
      pass_on(__func__, next, input, weight, bias, attr, scalars, scalar_count, algorithm, made);
  return told(status, "mkldnn::_linear_pointwise",
              {tensor(input), tensor(weight), tensor(bias), result(made)});
}

Status aoti_torch_cpu__mkl_linear(Handle input, Handle packed, Handle weight, Handle* bias,
                                  int64_t batch, Handle* made) {
  static Status (*next)(Handle, Handle, Handle, Handle*, int64_t, Handle*);
  Status status = pass_on(__func__, next, input, packed, weight, bias, batch, made);
  return told(
      status, "mkl::_mkl_linear",
      {tensor(input), tensor(packed), tensor(weight), tensor(bias), integer(batch), result(made)});
}

Status aoti_torch_cpu_mkldnn__convolution_pointwise(Handle input, Handle weight, Handle* bias,
                                                    const int64_t* padding, int64_t paddings,
                                                    const int64_t* stride, int64_t strides,
                                                    const int64_t* dilation, int64_t dilations,
                                                    int64_t groups, const char* attr,
                                                    const double** scalars, int64_t scalar_count,
                                                    const char** algorithm, Handle* made) {
  static Status (*next)(Handle, Handle, Handle*, const int64_t*, int64_t, const int64_t*, int64_t,
                        const int64_t*, int64_t, int64_t, const char*, const double**, int64_t,
                        const char**, Handle*);
  Status status =
      pass_on(__func__, next, input, weight, bias, padding, paddings, stride, strides, dilation,
              dilations, groups, attr, scalars, scalar_count, algorithm, made);
  return told(status, "mkldnn::_convolution_pointwise",
              {tensor(input), tensor(weight), tensor(bias), list(padding, paddings),
               list(stride, strides), list(dilation, dilations), integer(groups), result(made)});
}

}  // extern "C"
#pragma GCC visibility pop
