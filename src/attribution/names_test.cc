#include "attribution/names.h"

#include <gtest/gtest.h>

namespace mfu {
namespace {

TEST(Names, matmul_kernels_of_every_library_are_known) {
  for (const char* name :
       {"ampere_sgemm_32x32_sliced1x4_tn",
        "cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(…)",
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
        "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1>(int)",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_bias_TNT",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1",
        "attn_fwd",
        "sage_fwd",
        "kernel_unified_attention_2d",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32",
        "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47",
        "flash_fwd_splitkv_kernel",
        "triton_tem_fused_addmm_3",
        "gemmSN_TN_kernel<float>",
        "cudnn_generated_fort_native_sdpa_sm100_flash_bprop_f16_knob_31_128x128x128_1x4x1_cga1x1x1",
        "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1",
        "mfma_moe1_silu_mul_afp8_wfp4_fp8_t32x128x256_pm1",
        "mfma_moe2_afp4_wfp4_bf16_cshuffle_t32",
        "void ck_tile::kentry<2, ck_tile::MoeFlatmmKernel<ck_tile::TilePartitioner>>(int)",
        "aiter::fmoe_bf16_pertokenMXfp4_g1u1_flat_novs_silu_16x256",
        "fused_moe_kernel",
        "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l>(int4 const*)",
        "void deep_gemm::sm90_fp8_mqa_logits<64, 128, false>(unsigned int)",
        "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"}) {
    EXPECT_TRUE(names_matmul(name)) << name;
  }
}

TEST(Names, a_name_that_only_mentions_a_matmul_is_not_one) {
  for (const char* name :
       {"void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)",
        "triton_red_fused__to_copy_add_addmm_div_mean_mul_31",
        "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>(int)",
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePass",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(float*)",
        "cudnn::fusion::fmha_reduce_head<true>", "flash_fwd_mla_combine_kernel",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<float>>(int)",
        "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<float>>(int)",
        "gptq_marlin_repack_kernel", "mxfp4_moe_sort_kernel", "ck_tile::MoeSortingKernel",
        "batched_transpose_16x32_half", "cunn_SoftMaxForward", "Memset (Device)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)"}) {
    EXPECT_FALSE(names_matmul(name)) << name;
  }
}

TEST(Names, tf32_is_told_from_fp32_and_from_halves) {
  EXPECT_TRUE(names_tf32("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"));
  EXPECT_TRUE(names_tf32("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32"));
  EXPECT_FALSE(names_tf32("ampere_sgemm_32x32_sliced1x4_tn"));
  EXPECT_FALSE(names_tf32("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"));
  EXPECT_FALSE(names_tf32("turing_fp16_s1688gemm_fp16_128x128"));
}

TEST(Names, data_loading_ranges_are_known) {
  EXPECT_TRUE(names_data_loading("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
  EXPECT_TRUE(names_data_loading("torch/utils/data/dataloader.py(701): __next__"));
  EXPECT_TRUE(names_data_loading("## train_dataloader_next ##"));
  EXPECT_FALSE(names_data_loading("torch/utils/data/dataloader.py(100): __init__"));
  EXPECT_FALSE(names_data_loading("DistributedDataParallel.forward"));
  EXPECT_FALSE(names_data_loading("aten::mm"));
  EXPECT_FALSE(names_data_loading("Optimizer.step#SGD.step"));
}

TEST(Names, what_waits_is_known) {
  EXPECT_TRUE(names_blocking_call("<method 'acquire' of '_thread.lock' objects>"));
  EXPECT_TRUE(names_blocking_call("<built-in method sleep of module object at 0x7f>"));
  EXPECT_FALSE(names_blocking_call("train.py(3): acquire"));
  EXPECT_TRUE(names_blocking_copy("cudaMemcpy"));
  EXPECT_TRUE(names_blocking_copy("hipMemcpyWithStream"));
  EXPECT_FALSE(names_blocking_copy("cudaMemcpyAsync"));
  EXPECT_FALSE(names_blocking_copy("cudaMemset"));
}

}  // namespace
}  // namespace mfu
