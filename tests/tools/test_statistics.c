/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what drivers say of pipelines: recorded statistics and machine code, no Vulkan needed. */
#include <stdio.h>
#include <string.h>

#include "bench/measure/statistics.h"
#include "tests/room.h"

/* ---- statistics ---- */

typedef struct sample {
    const char *name;
    double value;
} sample;

static rf_kernel_statistics read_samples(const sample *samples, uint32_t subgroup_size)
{
    rf_gpu_statistic list[40];
    rf_gpu_explanation explanation = { .statistics = list, .subgroup_size = subgroup_size };
    for (; samples->name; samples++) {
        rf_gpu_statistic *s = &list[explanation.num_statistics++];
        snprintf(s->name, sizeof(s->name), "%s", samples->name);
        s->value = samples->value;
    }
    rf_kernel_statistics out;
    rf_gpu_statistics_read(&explanation, &out);
    return out;
}

static void assert_statistics(rf_kernel_statistics got, rf_kernel_statistics expected)
{
    assert_int_equal(got.registers, expected.registers);
    assert_int_equal(got.scalar_registers, expected.scalar_registers);
    assert_int_equal(got.spills, expected.spills);
    assert_int_equal(got.scratch, expected.scratch);
    assert_int_equal(got.shared, expected.shared);
    assert_int_equal(got.occupancy, expected.occupancy);
    assert_int_equal(got.instructions, expected.instructions);
    assert_int_equal(got.code_bytes, expected.code_bytes);
    assert_int_equal(got.cycles, expected.cycles);
}

/* Each driver's words about one and the same product's kernel; nothing of it is spilled, so the spills are made up. */
TEST(test_statistics)
{
    static const sample radv[] = {
        { "Driver pipeline hash", 1.19426e19 },
        { "SGPRs", 108 },
        { "VGPRs", 48 },
        { "Spilled SGPRs", 2 },
        { "Spilled VGPRs", 3 },
        { "Code size", 5896 },
        { "LDS size", 9216 },
        { "Scratch size", 16 },
        { "Subgroups per SIMD", 28 },
        { "Combined inputs", 0 },
        { "Instructions", 1270 },
        { "Copies", 128 },
        { "Branches", 35 },
        { "Latency", 11094 },
        { "Inverse Throughput", 2272 },
        { "Pre-Sched VGPRs", 34 },
        { "VALU", 477 },
        { "VOPD", 0 },
        { NULL, 0 },
    };
    static const sample nvk[] = {
        { "Instruction count", 1172 },
        { "Static cycle count", 21298 },
        { "Max warps/SM", 48 },
        { "Spills to memory", 4 },
        { "Fills from memory", 5 },
        { "Spills to reg", 6 },
        { "Fills from reg", 7 },
        { "Code size", 18752 },
        { "Number of GPRs", 40 },
        { "SLM size", 32 },
        { NULL, 0 },
    };
    static const sample turnip[] = {
        { "Max Waves Per Core", 12 },
        { "Instruction Count", 1506 },
        { "Code size", 2624 },
        { "NOPs Count", 412 },
        { "Registers used", 16 },
        { "Half-registers used", 1 },
        { "STP Count", 1 },
        { "LDP Count", 2 },
        { "Preamble Instruction Count", 296 },
        { NULL, 0 },
    };
    static const sample honeykrisp[] = {
        { "Instructions", 1019 }, { "ALU", 771 },      { "FSCIB", 771 }, { "IC", 244 },       { "Code size", 8392 },
        { "GPRs", 85 },           { "Uniforms", 512 }, { "Scratch", 8 }, { "Threads", 1024 }, { "Loops", 1 },
        { "Spills", 1 },          { "Fills", 2 },      { NULL, 0 },
    };
    static const sample anv[] = {
        { "Instructions", 1738 },
        { "Code size", 29792 },
        { "SENDs", 119 },
        { "Loops", 1 },
        { "Cycles", 63524 },
        { "Spills", 1 },
        { "Fills", 2 },
        { "Scratch Memory Size", 64 },
        { "GRF registers", 0 },
        { "Max dispatch width", 8 },
        { "Max live registers", 130 },
        { "Workgroup Memory Size", 20484 },
        { "Non SSA regs after NIR", 73 },
        { "Source hash", 3152146182.0 },
        { NULL, 0 },
    };
    static const sample anv_25[] = {
        { "Instruction Count", 900 },
        { "SEND Count", 40 },
        { "Loop Count", 1 },
        { "Cycle Count", 30000 },
        { "Spill Count", 1 },
        { "Fill Count", 2 },
        { "Scratch Memory Size", 64 },
        { "GRF registers", 128 },
        { "Max dispatch width", 16 },
        { "Max live registers", 90 },
        { "Workgroup Memory Size", 9216 },
        { NULL, 0 },
    };
    static const sample lavapipe[] = { { NULL, 0 } };
    assert_statistics(read_samples(radv, 64), (rf_kernel_statistics){ 48, 108, 5, 16, 9216, 28, 1270, 5896, 11094 });
    assert_statistics(read_samples(nvk, 32), (rf_kernel_statistics){ 40, -1, 9, 32, -1, 48, 1172, 18752, 21298 });
    assert_statistics(read_samples(turnip, 64), (rf_kernel_statistics){ 64, -1, 3, -1, -1, 12, 1506, 2624, -1 });
    assert_statistics(read_samples(honeykrisp, 32), (rf_kernel_statistics){ 43, -1, 3, 8, -1, 32, 1019, 8392, 771 });
    assert_statistics(read_samples(anv, 8), (rf_kernel_statistics){ 130, -1, 3, 64, 20484, -1, 1738, 29792, 63524 });
    assert_statistics(read_samples(anv_25, 16), (rf_kernel_statistics){ 45, -1, 3, 64, 9216, -1, 900, -1, 30000 });
    assert_statistics(read_samples(lavapipe, 0), (rf_kernel_statistics){ -1, -1, -1, -1, -1, -1, -1, -1, -1 });
    /* Subgroups cannot be told from invocations that fit where their size is not known. */
    assert_int_equal(read_samples(honeykrisp, 0).occupancy, -1);
}

/* ---- machine code ---- */

static void assert_loop(const char *code, rf_kernel_loop expected)
{
    rf_kernel_loop loop;
    rf_gpu_code_loop(code, &loop);
    assert_int_equal(loop.instructions, expected.instructions);
    assert_int_equal(loop.vector, expected.vector);
    assert_int_equal(loop.multiply_adds, expected.multiply_adds);
    assert_int_equal(loop.dual, expected.dual);
    assert_int_equal(loop.matrix, expected.matrix);
    assert_int_equal(loop.divisions, expected.divisions);
    assert_int_equal(loop.shared_loads, expected.shared_loads);
    assert_int_equal(loop.shared_load_bytes, expected.shared_load_bytes);
}

/* The loop of the naive product as each compiler prints it, with what stands before and after it cut short. */
static const char radv_code[] =
    "BB4:\n"
    "\ts_mov_b32 s4, s2                                            ; be840002\n"
    "\ts_movk_i32 s5, 0x8000                                       ; b0058000\n"
    "\ts_load_b256 s[16:23], s[4:5], null                          ; f40c0402 f8000000\n"
    "\ts_mul_i32 s1, s0, s9                                        ; 96010900\n"
    "\ts_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1) ; bf870099\n"
    "\tv_add3_u32 v1, s1, v6, v18                                  ; d6550001 044a0c01\n"
    "\tv_lshlrev_b32_e32 v1, 2, v1                                 ; 30020282\n"
    "\ts_waitcnt lgkmcnt(0)                                        ; bf89fc07\n"
    "\tbuffer_load_b32 v1, v1, s[16:19], 0 offen                   ; e0500000 80440101\n"
    "\ts_mul_i32 s3, s0, s10                                       ; 96030a00\n"
    "\ts_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT) | instid1(VALU_DEP_1) ; bf870099\n"
    "\tv_add3_u32 v2, s3, v5, v17                                  ; d6550002 04460a03\n"
    "\tv_lshlrev_b32_e32 v2, 2, v2                                 ; 30040482\n"
    "\tbuffer_load_b32 v2, v2, s[20:23], 0 offen                   ; e0500000 80450202\n"
    "\ts_add_u32 s0, s0, 1                                         ; 80008100\n"
    "\ts_waitcnt vmcnt(0)                                          ; bf8903f7\n"
    "\tv_fmac_f32_e32 v0, v1, v2                                   ; 56000501\n"
    "BB2:\n"
    "\ts_cmp_ge_i32 s0, s6                                         ; bf030600\n"
    "\ts_cbranch_scc0 BB4                                          ; bfa1ffe8\n"
    "BB5:\n"
    "\ts_set_inst_prefetch_distance 0x3                            ; bf840003\n"
    "\ts_load_b32 s0, s[12:13], 0x34                               ; f4000006 f8000034\n"
    "\ts_waitcnt lgkmcnt(0)                                        ; bf89fc07\n"
    "\ts_cmp_lg_i32 s0, 0                                          ; bf018000\n"
    "\ts_cbranch_scc0 BB8                                          ; bfa1000a\n"
    "\ts_endpgm                                                    ; bfb00000\n";
static const char nvk_code[] = "block 2 L2 [1, 7] -> {\n"
                               "      p0      = isetp.ge.i32 r4 c[0x0][0x708]            // delay=13\n"
                               "@!p0            bra pT L11                               // delay=1\n"
                               "} -> [3, 7]\n"
                               "block 6 L8 [4, 5] -> {\n"
                               "      r0      = shf.l.w.i32 r1 rZ 0x2                    // delay=4\n"
                               "      r0 p0   = iadd3 r0 c[0x1][0x30] rZ                 // delay=4\n"
                               "      r1      = iadd3.x rZ c[0x1][0x34] rZ p0 pF         // delay=5\n"
                               "                st.global.a64.strong.gpu.b32 [r0..2] r3  // delay=2 rd:0\n"
                               "                exit                                     // delay=1 wt=000001\n"
                               "} -> []\n"
                               "block 7 L11 [2] -> {\n"
                               "      r5      = imad r4 c[0x0][0x714] r2                 // delay=5\n"
                               "      r5      = shf.l.w.i32 r5 rZ 0x2                    // delay=4\n"
                               "      r6 p0   = iadd3 r5 c[0x1][0x0] rZ                  // delay=4\n"
                               "      r7      = iadd3.x rZ c[0x1][0x4] rZ p0 pF          // delay=5\n"
                               "      r5      = ld.global.a64.constant.b32 [r6..8], pT   // delay=2 rd:0 wr:1\n"
                               "      r6      = imad r4 c[0x0][0x718] r0                 // delay=5 wt=000001\n"
                               "      r6      = shf.l.w.i32 r6 rZ 0x2                    // delay=4\n"
                               "      r6 p0   = iadd3 r6 c[0x1][0x10] rZ                 // delay=4\n"
                               "      r7      = iadd3.x rZ c[0x1][0x14] rZ p0 pF         // delay=5\n"
                               "      r6      = ld.global.a64.constant.b32 [r6..8], pT   // delay=2 wr:0\n"
                               "      r3      = ffma.ftz r5 r6 r3                        // delay=1 wt=000011\n"
                               "      r4      = iadd3 r4 0x1 rZ                          // delay=3\n"
                               "                bra pT L2                                // delay=1\n"
                               "} -> [2]\n";
static const char turnip_code[] = "l566:\n"
                                  "cmps.s.ge up0.x, r48.w, c0.z\n"
                                  "(ss)br p0.x, #l586\n"
                                  "(rpt1)shr.b r49.x, (r)c1.y, 16\n"
                                  "(rpt1)mull.u r50.z, r48.w, (r)c1.y\n"
                                  "(rpt1)shr.b r51.z, r48.w, 16\n"
                                  "(rpt1)mull.u r49.z, r48.w, (r)r49.x\n"
                                  "(rpt1)mull.u r52.x, (r)c1.y, (r)r51.z\n"
                                  "(rpt1)shl.b r50.x, (r)r49.z, 16\n"
                                  "(rpt1)shl.b r52.z, (r)r52.x, 16\n"
                                  "(rpt1)add.u r51.x, (r)r50.x, (r)r50.z\n"
                                  "(rpt1)add.u r53.x, (r)r52.z, (r)r51.x\n"
                                  "(nop2) add.u r48.w, r48.w, 1\n"
                                  "(ss)sad.s32 r4.z, r1.z, r2.y, r53.x\n"
                                  "(nop3) sad.s32 r5.x, r2.x, r1.w, r53.y\n"
                                  "nop\n"
                                  "isam.v.base0 (u32)(x)r4.w, r4.z, s#0, t#0\n"
                                  "nop\n"
                                  "isam.v.base0 (u32)(x)r5.y, r5.x, s#0, t#2\n"
                                  "(sy)mad.f32 r4.y, (last)r4.w, r5.y, (last)r4.y\n"
                                  "jump #l566\n"
                                  "l586:\n"
                                  "cmps.s.ne up0.x, c3.y, 0\n"
                                  "(ss)br !p0.x, #l591\n"
                                  "ldib.b.untyped.1d.u32.1.imm.base0 r5.z, r3.z, 6\n"
                                  "(rpt1)nop\n"
                                  "(sy)add.f r4.y, (last)r4.y, (last)r5.z\n";

static const char anv_code[] =
    "\n"
    "LABEL5:\n"
    "cmp.ge.f0.0(16) null<1>D        g104<8,8,1>D    g31.2<0,1,0>D   { align1 1H I@2 };\n"
    "(+f0.0) break(16) JIP:  LABEL4        UIP:  LABEL4              { align1 1H };\n"
    "mul(16)         g106<1>D        g104<8,8,1>D    g31.10<0,1,0>UW { align1 1H };\n"
    "mul(16)         g75<1>D         g104<8,8,1>D    g31.11<0,1,0>UW { align1 1H };\n"
    "mul(16)         g110<1>D        g104<8,8,1>D    g31.12<0,1,0>UW { align1 1H };\n"
    "mul(16)         g77<1>D         g104<8,8,1>D    g31.13<0,1,0>UW { align1 1H };\n"
    "add(16)         g104<1>D        g104<1,1,0>D    1D              { align1 1H compacted };\n"
    "add(16)         g106.1<2>UW     g106.1<16,8,2>UW g75<16,8,2>UW  { align1 1H I@4 };\n"
    "add(16)         g110.1<2>UW     g110.1<16,8,2>UW g77<16,8,2>UW  { align1 1H I@3 };\n"
    "add3(16)        g108<1>D        g48<8,8,1>D     g13<8,8,1>D     g106<1,1,1>D { align1 1H I@2 };\n"
    "add3(16)        g112<1>D        g54<8,8,1>D     g15<8,8,1>D     g110<1,1,1>D { align1 1H I@2 };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N $9.src };\n"
    "shl(16)         g117<1>D        g108<8,8,1>D    0x00000002UD    { align1 1H A@1 };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N $10.src };\n"
    "shl(16)         g114<1>D        g112<8,8,1>D    0x00000002UD    { align1 1H I@2 };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N A@1 };\n"
    "send(16)        g119UD          g117UD          nullUD          0x64200500                0x01000000\n"
    "                ugm MsgDesc: ( load, a32, d32, V1, L1STATE_L3MOCS dst_len = 2, src0_len = 2, src1_len = 0 bti )  "
    "BTI 1  base_offset 0  { align1 1H $9 };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N $9.src };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N A@1 };\n"
    "send(16)        g116UD          g114UD          nullUD          0x64200500                0x02000000\n"
    "                ugm MsgDesc: ( load, a32, d32, V1, L1STATE_L3MOCS dst_len = 2, src0_len = 2, src1_len = 0 bti )  "
    "BTI 2  base_offset 0  { align1 1H $10 };\n"
    "sync nop(1)                     null<0,1,0>UB                   { align1 WE_all 1N $9.dst };\n"
    "mad(16)         g17<1>F         g17<8,8,1>F     g116<8,8,1>F    g119<1,1,1>F { align1 1H @1 $10.dst };\n"
    "\n"
    "LABEL4:\n"
    "while(16)       JIP:  LABEL5                                    { align1 1H };\n"
    "asr(8)          g120<1>D        -(abs)g32.5<0,1,0>D 31W         { align1 WE_all 1Q F@1 };\n";

TEST(test_code)
{
    assert_loop(radv_code, (rf_kernel_loop){ .instructions = 19, .vector = 5, .multiply_adds = 1 });
    assert_loop(nvk_code, (rf_kernel_loop){ .instructions = 15, .vector = 11, .multiply_adds = 1 });
    assert_loop(turnip_code, (rf_kernel_loop){ .instructions = 29, .vector = 23, .multiply_adds = 1 });
    assert_loop(anv_code, (rf_kernel_loop){ .instructions = 23, .vector = 13, .multiply_adds = 1 });
}

TEST(test_no_loop)
{
    const rf_kernel_loop none = { 0 };
    assert_loop(NULL, none);
    assert_loop("", none);
    assert_loop("a text of a driver that is not known\nBB0:\n\tBB0\n", none);
    assert_loop("BB0:\n\ts_cbranch_scc0 BB1 ; bfa1ffe8\nBB1:\n\tv_fma_f32 v0, v1, v2, v3\n\ts_endpgm\n",
                none); /* forward */
    assert_loop("block 0 L0 [] -> {\n", none);
    assert_loop("l5:\njump #l5", none); /* of which driver? */
}

/* The hottest of two loops, one within the other, and a third behind them. */
TEST(test_hottest)
{
    const char *code = "BB0:\n"
                       "\tv_fma_f32 v0, v1, v2, v3 ; 00\n"
                       "\tv_fma_f32 v0, v1, v2, v3 ; 00\n"
                       "\tv_fma_f32 v0, v1, v2, v3 ; 00\n"
                       "BB1:\n"
                       "\tv_mad_u32_u24 v0, v1, v2, v3 ; 00\n" /* of integers */
                       "\tv_mad_f32 v0, v1, v2, v3 ; 00\n"
                       "\ts_cbranch_scc0 BB1 ; 00\n"
                       "\ts_cbranch_scc0 BB0 ; 00\n"
                       "BB2:\n"
                       "\tv_add_f32_e32 v0, v1, v2 ; 00\n"
                       "\tv_add_f32_e32 v0, v1, v2 ; 00\n"
                       "\tv_add_f32_e32 v0, v1, v2 ; 00\n"
                       "\ts_cbranch_vccz BB2 ; 00\n"
                       "\ts_endpgm ; 00\n";
    assert_loop(code, (rf_kernel_loop){ .instructions = 3, .vector = 2, .multiply_adds = 1 });
    /* A matrix instruction is worth many of the others. */
    code = "BB1:\n"
           "\tv_fma_f32 v0, v1, v2, v3 ; 00\n"
           "\tv_fma_f32 v0, v1, v2, v3 ; 00\n"
           "\ts_cbranch_scc0 BB1 ; 00\n"
           "BB2:\n"
           "\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7] ; 00\n"
           "\ts_branch BB2 ; 00\n"
           "\ts_endpgm ; 00\n";
    assert_loop(code, (rf_kernel_loop){ .instructions = 2, .vector = 1, .matrix = 1 });
}

TEST(test_shared_loads)
{
    assert_loop("BB1:\n"
                "\tds_load_b64 v[28:29], v21 offset:816                        ; d9d80330 1c000015\n"
                "\tds_load_b128 v[48:51], v21 offset:832                       ; d9d80338 30000015\n"
                "\tds_read2_b64 v[48:51], v21 offset0:1 offset1:3              ; d9d80338 30000015\n"
                "\tds_write_b32 v21, v26                                       ; d9d81538 2000001a\n"
                "\tv_dual_fmac_f32 v1, v25, v31 :: v_dual_fmac_f32 v2, v35, v38 ; c8003f19 01024d23\n"
                "\tv_dual_mov_b32 v1, 0 :: v_dual_fmac_f32 v2, v35, v38        ; ca100080 01020080\n"
                "\tv_fmac_f32_e32 v14, v33, v38                                ; 561c4d21\n"
                "\ts_cbranch_scc0 BB1                                          ; bfa1ffe8\n"
                "\ts_endpgm                                                    ; bfb00000\n",
                (rf_kernel_loop){ .instructions = 10,
                                  .vector = 5,
                                  .multiply_adds = 4,
                                  .dual = 4,
                                  .shared_loads = 3,
                                  .shared_load_bytes = 40 });
    assert_loop("block 7 L11 [2] -> {\n"
                "      r24..28  = ld.shared.strong.cta.b128 [r3.x16], pT        // delay=1 wr:1\n"
                "      r28..32  = ld.shared.strong.cta.b128 [r4.x16+0x1100], pT // delay=2 wr:2\n"
                "      r5       = ffma.ftz r24 r28 r5                           // delay=1 wt=000110\n"
                "      r8..12   = hmma.m16n8k16.f32 r24..28 r28..30 r8..12      // delay=1\n"
                "@p0              bra pT L11                                    // delay=1\n"
                "} -> [2]\n",
                (rf_kernel_loop){ .instructions = 5,
                                  .vector = 2,
                                  .multiply_adds = 1,
                                  .matrix = 1,
                                  .shared_loads = 2,
                                  .shared_load_bytes = 32 });
    assert_loop("Native code for unnamed CL shader (null):\n"
                "l764:\n"
                "(sy)ldl.u32 r8.x, l[r2.w], 4\n"
                "ldl.u32 r12.x, l[r9.x], 2\n"
                "(ss)(rpt1)mad.f32 r4.x, r8.x, (r)r12.x, (r)(last)r4.x\n"
                "(rpt1)mad.f32 r4.z, (last)r8.x, (r)r12.z, (r)(last)r4.z\n"
                "jump #l764\n",
                (rf_kernel_loop){
                    .instructions = 7, .vector = 4, .multiply_adds = 4, .shared_loads = 2, .shared_load_bytes = 24 });
}

TEST(test_anv)
{
    assert_loop(
        "LABEL5:\n"
        "send(8)         g19UD           g58UD           nullUD          0x0220d580      0x00000000\n"
        "                slm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS dst_len = 4 flat ) { align1 1Q $0 };\n"
        "send(8)         nullUD          g58UD           g12UD           0x0220d580      0x00000000\n"
        "                slm MsgDesc: ( store, a32, d32, V4, L1STATE_L3MOCS dst_len = 0 flat ) { align1 1Q $0 };\n"
        "mad(8)          g126<1>UD       0x0020UW        g126<8,8,1>UW   0x0004UW { align1 WE_all 1Q I@3 };\n"
        "mad(8)          g17<1>F         g17<8,8,1>F     g116<8,8,1>F    g119<1,1,1>F { align1 1Q @1 };\n"
        "dpas.8x8(8)     g10<1>F         g10<1,1,0>F     g20<1,1,0>HF    g30<1,1,0>HF { align1 1Q };\n"
        "mov(8)          g62<1>F         g61<8,8,1>UD                    { align1 1Q };\n"
        "math inv(8)     g63<1>F         g62<0,1,0>F     null<8,8,1>F    { align1 1Q @1 $4 };\n"
        "mach(8)         g68<1>UD        g65<0,1,0>UD    g67<0,1,0>UD    { align1 1Q AccWrEnable };\n"
        "mach(8)         g69<1>UD        g68<0,1,0>UD    g67<0,1,0>UD    { align1 1Q AccWrEnable };\n"
        "mov(1)          g62<1>D         g61<0,1,0>D                     { align1 WE_all 1N };\n"
        "(-f0.0) while(8) JIP: LABEL5                                    { align1 1Q };\n",
        (rf_kernel_loop){ .instructions = 11,
                          .vector = 7,
                          .multiply_adds = 1,
                          .matrix = 1,
                          .divisions = 1,
                          .shared_loads = 1,
                          .shared_load_bytes = 16 });
}

/* A division by a number that is known only at run time, as each compiler makes it. */
TEST(test_divisions)
{
    const char *whole = "BB1:\n"
                        "\tv_cvt_f32_u32_e32 v4, s61                                   ; 7e080c3d\n"
                        "\tv_rcp_f32_e32 v4, v4                                        ; 7e085504\n"
                        "\tv_mul_f32_e32 v4, s0, v4                                    ; 10080800\n"
                        "\tv_cvt_u32_f32_e32 v4, v4                                    ; 7e080f04\n"
                        "\ts_mul_hi_u32 s63, s62, s63                                  ; 96bf3f3e\n"
                        "\ts_mul_hi_u32 s62, s64, s62                                  ; 96be3e40\n"
                        "\ts_cbranch_scc0 BB1                                          ; bfa1ffe8\n"
                        "\ts_endpgm                                                    ; bfb00000\n";
    assert_loop(whole, (rf_kernel_loop){ .instructions = 7, .vector = 4, .divisions = 1 });
    /* The reciprocal is made before the loop. */
    assert_loop("BB1:\n"
                "\ts_mul_hi_u32 s62, s64, s62                                  ; 96be3e40\n"
                "\tv_mul_hi_u32 v1, v2, s62                                    ; 96be3e40\n"
                "\ts_cbranch_scc0 BB1                                          ; bfa1ffe8\n"
                "\ts_endpgm                                                    ; bfb00000\n",
                (rf_kernel_loop){ .instructions = 3, .vector = 1, .divisions = 2 });
    assert_loop("block 7 L11 [2] -> {\n"
                "      r1       = i2f.f32.u32.re r0                             // delay=2 wr:0\n"
                "      r1       = mufu.rcp.f32 r1                               // delay=2 wt=000001 wr:0\n"
                "      ur4..6   = imad64 ur3 ur2 rZ                             // delay=3 wt=000010\n"
                "      ur4..6   = imad64 ur3 ur2 rZ                             // delay=1 wt=000001\n"
                "                 bra pT L11                                    // delay=1\n",
                (rf_kernel_loop){ .instructions = 5, .vector = 2, .divisions = 1 });
    assert_loop("Native code for unnamed CL shader (null):\n"
                "l764:\n"
                "(rpt1)cov.u32f32 r49.w, (r)r49.x\n"
                "(ss)rcp r49.z, r49.z\n"
                "rcp r49.w, r49.w\n"
                "(ss)br p0.y, #l764\n",
                (rf_kernel_loop){ .instructions = 5, .vector = 4, .divisions = 2 });
}

TESTS(statistics, NULL, NULL)
