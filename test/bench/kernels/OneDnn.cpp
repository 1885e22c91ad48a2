//===- OneDnn.cpp - the same products by oneDNN ---------------------------===//

#include "OneDnn.h"

#ifdef ENCAST_HAVE_ONEDNN

#include <initializer_list>
#include <oneapi/dnnl/dnnl.h>

using namespace encast;

namespace {
class Product final : public OneDnnProduct {
public:
  ~Product() override {
    for (dnnl_memory_t memory : {a, b, c})
      dnnl_memory_destroy(memory);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(descriptor);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
  }

  bool prepare(int64_t m, int64_t n, int64_t k, bool bf16) {
    const dnnl_data_type_t operands = bf16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_dims_t aDims = {m, k}, bDims = {k, n}, cDims = {m, n};
    dnnl_memory_desc_t aLayout, bAny, cLayout;
    dnnl_matmul_desc_t operation;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) !=
            dnnl_success ||
        dnnl_memory_desc_init_by_tag(&aLayout, 2, aDims, operands, dnnl_ab) !=
            dnnl_success ||
        dnnl_memory_desc_init_by_tag(&bAny, 2, bDims, operands,
                                     dnnl_format_tag_any) != dnnl_success ||
        dnnl_memory_desc_init_by_tag(&cLayout, 2, cDims, dnnl_f32, dnnl_ab) !=
            dnnl_success ||
        dnnl_matmul_desc_init(&operation, &aLayout, &bAny, nullptr, &cLayout) !=
            dnnl_success ||
        dnnl_primitive_desc_create(&descriptor, &operation, nullptr, engine,
                                   nullptr) != dnnl_success ||
        dnnl_primitive_create(&primitive, descriptor) != dnnl_success)
      return false;
    const dnnl_memory_desc_t *bLayout =
        dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0);
    bytes = dnnl_memory_desc_get_size(bLayout);
    return dnnl_memory_create(&a, &aLayout, engine, nullptr) == dnnl_success &&
           dnnl_memory_create(&b, bLayout, engine, nullptr) == dnnl_success &&
           dnnl_memory_create(&c, &cLayout, engine, nullptr) == dnnl_success;
  }

  size_t weightBytes() const override { return bytes; }

  void run(const void *aData, const void *bData, void *cData) override {
    dnnl_memory_set_data_handle(a, const_cast<void *>(aData));
    dnnl_memory_set_data_handle(b, const_cast<void *>(bData));
    dnnl_memory_set_data_handle(c, cData);
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
    dnnl_primitive_execute(primitive, stream, 3, arguments);
    dnnl_stream_wait(stream);
  }

private:
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  dnnl_primitive_desc_t descriptor = nullptr;
  dnnl_primitive_t primitive = nullptr;
  dnnl_memory_t a = nullptr, b = nullptr, c = nullptr;
  size_t bytes = 0;
};
} // namespace

std::unique_ptr<OneDnnProduct> OneDnnProduct::create(int64_t m, int64_t n,
                                                     int64_t k, bool bf16) {
  auto product = std::make_unique<Product>();
  if (!product->prepare(m, n, k, bf16))
    return nullptr;
  return product;
}

#else

std::unique_ptr<encast::OneDnnProduct>
encast::OneDnnProduct::create(int64_t, int64_t, int64_t, bool) {
  return nullptr;
}

#endif
