#!/usr/bin/env python3
"""Tests of kernel_ladder.patch: torch_patch_test.py. What a model did before it does after, whether the
suite can do it or not; ten of transformers' architectures, where that is installed, with small random
weights. Exits with 77 where it can't run (torch_calls.py)."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import unittest
from typing import Any, Callable, NamedTuple

from torch_calls import DEVICES, TestCase, kl, several, torch
import skips
from torch import Tensor, func
from torch.autograd import forward_ad
from torch.nn import functional as F

Function = Callable[..., Any]


class OtherRMSNorm(torch.nn.Module):
    """Another library's."""

    def __init__(self, eps: float, more: float = 0) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = torch.nn.Parameter(torch.randn(24)), eps
        self.more = more

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        # Rows of one element, too
        y = x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
        y = y * (self.weight + self.more)
        return y if gate is None else y * gate


def kernels(function: Function, *inputs: Any) -> set[str]:
    """Families of the kernels that a call runs on CPU tensors."""
    try:
        return {one.kernel.split("/")[0] for one in kl.explain(function, *inputs)}
    except ValueError:
        return set()


class Patch(TestCase):
    def test_it_swaps_what_it_can_and_says_so(self) -> None:
        for device in DEVICES:
            torch.manual_seed(0)
            inner = [torch.nn.ReLU(), torch.nn.Linear(24, 24), torch.nn.ReLU(inplace=True)]
            model = torch.nn.Sequential(
                torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU("tanh"),
                OtherRMSNorm(1e-5), torch.nn.Sequential(*inner), OtherRMSNorm(0.1),
                torch.nn.Softmax(-1), OtherRMSNorm(1e-5, more=1),
            ).to(device)  # fmt: skip
            x, weights = torch.randn(5, 8, device=device), torch.randn(5, 24, device=device)
            expected = model(x)
            wanted = torch.autograd.grad(expected, list(model.parameters()), weights)
            state = model.state_dict()
            done = kl.patch(model)
            self.assertEqual(list(done), ["1", "2", "3", "4.0", "4.2", "5", "6", "7"])
            self.assertEqual(done["3"], "OtherRMSNorm -> kernel_ladder.ops.rms_norm")
            self.assertEqual(done["4.2"], "stays ReLU: it works in place")
            self.assertEqual(done["5"], "OtherRMSNorm -> kernel_ladder.ops.rms_norm")
            self.assertEqual(done["7"], "stays OtherRMSNorm: it is not x / rms(x) * weight")
            self.assertIn("\n4.2  stays ReLU", str(done))
            self.assert_near(model(x), expected, torch.float32)
            found = torch.autograd.grad(model(x), list(model.parameters()), weights)
            self.assert_near(found, wanted, torch.float32)
            self.assertEqual(list(model.state_dict()), list(state))
            self.assertEqual(list(kl.patch(model)), ["4.2", "7"])

    def test_a_module_stays_what_it_was(self) -> None:
        norm = torch.nn.LayerNorm(8)
        model = torch.nn.ModuleDict({"one": norm, "two": norm, "gelu": torch.nn.GELU()})
        seen: list[Any] = []
        norm.register_forward_hook(lambda *_: seen.append(1))
        before = repr(model), list(model.state_dict()), list(model.parameters())
        rng = torch.get_rng_state()
        done = kl.patch(model)
        self.assertEqual(list(done), ["one", "two", "gelu"])
        self.assertTrue(torch.equal(rng, torch.get_rng_state()))
        self.assertIs(model["one"], model["two"])
        self.assertIsInstance(model["two"], torch.nn.LayerNorm)
        self.assertEqual((repr(model), list(model.state_dict())), before[:2])
        self.assertTrue(all(x is y for x, y in zip(model.parameters(), before[2], strict=True)))
        x = torch.randn(3, 8)
        self.assertEqual(kernels(norm, x), {"layernorm"})
        self.assertEqual(seen, [1])
        self.assertEqual(list(kl.patch(torch.nn.LayerNorm(8))), ["(the model)"])

    def test_copies_and_pickles(self) -> None:
        model = torch.nn.Sequential(torch.nn.LayerNorm(24), torch.nn.GELU("tanh"), OtherRMSNorm(1e-5))
        kl.patch(model)
        x = torch.randn(3, 24)
        expected = model(x)
        for one in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
            self.assertEqual(kernels(one, x), {"layernorm", "elementwise", "rmsnorm"})
            self.assert_same(one(x), expected)

    def test_what_the_suite_cannot_do_stays_pytorchs_in_each_call(self) -> None:
        class Subclass(Tensor):
            pass

        def changed(module: torch.nn.Module, **attributes: Any) -> torch.nn.Module:
            for name, value in attributes.items():
                setattr(module, name, value)
            return module

        def nothing(module: torch.nn.Module) -> torch.nn.Module:
            return module

        x, wide = torch.randn(3, 24), torch.randn(2, 3, 24)
        norm, rms, gelu = torch.nn.LayerNorm(24), torch.nn.RMSNorm(24), torch.nn.GELU()
        jagged, nested = (torch.nested.nested_tensor([x, x[:2]], layout=layout)
                          for layout in (torch.jagged, torch.strided))  # fmt: skip
        for what, (module, after, inputs) in {
            "double": (norm, lambda m: m.double(), (x.double(),)),
            "double of another RMS": (OtherRMSNorm(1e-5), lambda m: m.double(), (x.double(),)),
            "mixed dtypes": (norm, nothing, (x.bfloat16(),)),
            "weights of another dtype": (OtherRMSNorm(1e-5), nothing, (x.bfloat16(),)),
            "a tiny eps": (norm, lambda m: changed(m, eps=0.0), (x,)),
            "no weight any more": (norm, lambda m: changed(m, weight=None), (x,)),
            "one more argument": (OtherRMSNorm(1e-5), nothing, (x, x)),
            "rows of one": (OtherRMSNorm(1e-5), nothing, (x[:, :1],)),
            "integers": (torch.nn.ReLU(), nothing, (x.int(),)),
            "in place": (torch.nn.ReLU(), lambda m: changed(m, inplace=True), (x,)),
            "another dim": (torch.nn.Softmax(1), nothing, (wide,)),
            "no dimension": (torch.nn.Softmax(-1), nothing, (x[0, 0],)),
            "meta": (torch.nn.GELU(), nothing, (x.to("meta"),)),
            "a dim that has changed": (torch.nn.Softmax(-1), lambda m: changed(m, dim=0), (x,)),
            "a subclass": (gelu, nothing, (x.as_subclass(Subclass),)),
            "jagged": (gelu, nothing, (jagged,)),
            "nested": (gelu, nothing, (nested,)),
            "sparse": (torch.nn.ReLU(), nothing, (x.to_sparse(),)),
            "double of PyTorch's RMS": (rms, lambda m: m.double(), (x.double(),)),
        }.items():
            with self.subTest(what=what):
                before, now = copy.deepcopy(module), copy.deepcopy(module)
                self.assertRegex(str(kl.patch(now)), "-> kernel_ladder.ops")
                before, now = after(before), after(now)
                copies = [one if one.is_nested else one.clone() for one in inputs]
                found, expected = now(*copies), before(*inputs)
                self.assertEqual((type(found), found.dtype), (type(expected), expected.dtype))
                if found.device.type != "meta" and not found.is_nested and not found.is_sparse:
                    self.assert_same(found, expected)
                self.assertEqual(kernels(now, *inputs), set())
        model = torch.nn.Softmax(1)
        kl.patch(model)
        self.assertEqual(kernels(model, x), {"softmax"})  # of two dimensions the last

    def test_an_rms_norm_without_an_eps_has_pytorchs(self) -> None:
        for device in DEVICES:
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                norm = torch.nn.RMSNorm(24).to(device, dtype)
                x = 1e-3 * torch.randn(4, 24, device=device).to(dtype)
                expected = norm(x)
                self.assertEqual(set(kl.patch(norm).values()), {"RMSNorm -> kernel_ladder.ops.rms_norm"})
                self.assert_near(norm(x), expected, dtype)
                self.assert_near(kl.ops.rms_norm(x, (24,), norm.weight), expected, dtype)
            self.assertEqual(kernels(norm.cpu(), x.cpu()), {"rmsnorm"})

    def test_transforms(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU(),
                                    OtherRMSNorm(1e-5), torch.nn.Softmax(-1))  # fmt: skip
        x, t = torch.randn(2, 5, 8)

        def results() -> list[Tensor]:
            state = {name: p.detach() for name, p in model.named_parameters()}

            def loss(state: dict[str, Tensor], x: Tensor) -> Tensor:
                return func.functional_call(model, state, (x,)).square().sum()

            with forward_ad.dual_level():
                forward = forward_ad.unpack_dual(model(forward_ad.make_dual(x, t))).tangent
            each = torch.vmap(func.grad(loss), (None, 0))(state, x)  # gradients of each sample
            models = {name: torch.stack([p, p + 0.1]) for name, p in state.items()}
            return [forward, func.jvp(model, (x,), (t,))[1], torch.vmap(loss, (0, None))(models, x),
                    func.hessian(lambda x: loss(state, x))(x), *each.values()]  # fmt: skip

        expected = results()
        kl.patch(model)
        self.assert_near(results(), expected, torch.float32)

    def test_files_that_know_pytorchs_operators_alone(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU())
        x = torch.randn(5, 8)
        expected = model(x)
        kl.patch(model)
        for write in (torch.jit.script, lambda model: torch.jit.trace(model, x)):
            written = write(copy.deepcopy(model))
            self.assert_same(written(x), expected)
            self.assertNotIn("kernel_ladder", str(written.inlined_graph))

    def test_autocast(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU(),
                                    torch.nn.Softmax(-1), OtherRMSNorm(1e-5), torch.nn.RMSNorm(24))  # fmt: skip
        for device in DEVICES:
            x = torch.randn(5, 8, device=device)
            with torch.autocast(device, torch.bfloat16):
                before = model.to(device)(x)
                patched = copy.deepcopy(model)
                kl.patch(patched)
                after = patched(x)
            self.assertEqual(before.dtype, after.dtype)
            self.assert_near(after, before, torch.bfloat16)

    def test_compile_and_export(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.LayerNorm(24), torch.nn.GELU(),
                                    OtherRMSNorm(1e-5), torch.nn.Softmax(-1))  # fmt: skip
        x = torch.randn(5, 8)
        expected = model(x)
        kl.patch(model)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.assert_near(compiled(x), expected, torch.float32)
        exported = torch.export.export(model, (x,))
        self.assert_near(exported.module()(x), expected, torch.float32)
        self.assertIn("kernel_ladder.layer_norm", str(exported))


TRANSFORMERS = unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed here")


class Architecture(NamedTuple):
    """Of transformers: a configuration and the model that takes it, small, and what it is called with."""

    config: str
    model: str
    arguments: dict[str, Any]
    inputs: Callable[[], dict[str, Tensor]]
    families: set[str]  # of the kernels that it runs in bfloat16 once patched

    def make(self, dtype: torch.dtype, **more: Any) -> Any:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.arguments, **more)
        return getattr(transformers, self.model)(config).to(dtype).eval()


def words(**more: Any) -> Callable[[], dict[str, Tensor]]:
    return lambda: {"input_ids": torch.randint(3, 60, (2, 7)), **{name: make() for name, make in more.items()}}


def pixels() -> Tensor:
    return torch.randn(2, 3, 16, 16)


# One layer with heads of 64
SMALL = {
    "vocab_size": 64, "hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 32, "pad_token_id": 0,
}  # fmt: skip
LLAMA = {**SMALL, "num_key_value_heads": 1, "head_dim": 64}
BERT = {"layernorm", "elementwise", "attention"}
SWIGLU = {"rmsnorm", "elementwise", "attention"}
TOWER = {name: SMALL[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                        "num_attention_heads")}  # fmt: skip
ARCHITECTURES = {
    "bert": Architecture("BertConfig", "BertForMaskedLM", SMALL, words(), BERT),
    "roberta": Architecture("RobertaConfig", "RobertaForMaskedLM", SMALL, words(), BERT),
    "gpt2": Architecture(
        "GPT2Config", "GPT2LMHeadModel",
        {"vocab_size": 64, "n_positions": 32, "n_embd": 128, "n_layer": 1, "n_head": 2}, words(), BERT,
    ),
    "t5": Architecture(
        "T5Config", "T5ForConditionalGeneration",
        {"vocab_size": 64, "d_model": 64, "d_kv": 64, "d_ff": 96, "num_layers": 1, "num_heads": 1,
         "pad_token_id": 0, "decoder_start_token_id": 0},
        words(decoder_input_ids=lambda: torch.randint(3, 60, (2, 5))), {"elementwise"},
    ),
    "llama": Architecture("LlamaConfig", "LlamaForCausalLM", LLAMA, words(), SWIGLU),
    "mistral": Architecture(
        "MistralConfig", "MistralForCausalLM", {**LLAMA, "sliding_window": 4}, words(),
        {"rmsnorm", "elementwise"},
    ),
    "qwen3": Architecture("Qwen3Config", "Qwen3ForCausalLM", LLAMA, words(), SWIGLU),
    "gemma2": Architecture("Gemma2Config", "Gemma2ForCausalLM", LLAMA, words(), {"elementwise"}),
    "vit": Architecture(
        "ViTConfig", "ViTForImageClassification", {**TOWER, "image_size": 16, "patch_size": 8},
        lambda: {"pixel_values": pixels()}, BERT,
    ),
    "whisper": Architecture(
        "WhisperConfig", "WhisperForConditionalGeneration",
        {"vocab_size": 64, "num_mel_bins": 8, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1,
         "encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_ffn_dim": 96,
         "decoder_ffn_dim": 96, "max_source_positions": 6, "max_target_positions": 16, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
        lambda: {"input_features": torch.randn(2, 8, 12), "decoder_input_ids": torch.randint(3, 60, (2, 5))},
        {"layernorm", "elementwise"},  # its attention's scale is 1
    ),
    # Keys and values of different sizes, and experts
    "deepseek_v3": Architecture(
        "DeepseekV3Config", "DeepseekV3ForCausalLM",
        {**SMALL, "num_key_value_heads": 2, "moe_intermediate_size": 32, "n_routed_experts": 4, "n_group": 1,
         "topk_group": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 0, "kv_lora_rank": 16,
         "q_lora_rank": 16, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32,
         "experts_implementation": "eager"},
        words(), {"rmsnorm", "elementwise"},
    ),
}  # fmt: skip


@TRANSFORMERS
class HuggingFace(TestCase):
    def run_model(self, model: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Its logits, and the gradients of its parameters."""
        given = {name: x.to(model.dtype) if x.is_floating_point() else x for name, x in inputs.items()}
        model.zero_grad()
        logits = model(**given).logits
        logits.to(torch.promote_types(logits.dtype, torch.float32)).square().mean().backward()
        zero = torch.zeros(())
        return [logits.detach(), *(zero if p.grad is None else p.grad for p in model.parameters())]

    def test_architectures_give_the_same_logits_and_gradients(self) -> None:
        """In each dtype as near to float64 as unpatched."""
        for name, architecture in ARCHITECTURES.items():
            for dtype, slack in ((torch.float32, 1e-6), (torch.bfloat16, 2e-3)):
                for device in DEVICES:
                    with self.subTest(architecture=name, dtype=str(dtype), device=device):
                        model = architecture.make(dtype)
                        patched, truth = copy.deepcopy(model), copy.deepcopy(model).double()
                        done = kl.patch(patched)
                        self.assertTrue(any("->" in what for what in done.values()), done)
                        inputs = architecture.inputs()
                        true = self.run_model(truth, inputs)
                        largest = max(gradient.norm() for gradient in true[1:])
                        on = {key: x.to(device) for key, x in inputs.items()}
                        errors = []
                        for one in (model, patched):
                            found = self.run_model(one.to(device), on)
                            errors.append([
                                float((a.cpu().double() - b).norm() / max(b.norm(), 0.01 * largest))
                                for a, b in zip(found, true, strict=True)
                            ])  # fmt: skip
                        for theirs, ours in zip(*errors):
                            self.assertLessEqual(ours, 1.25 * theirs + slack)
                        if dtype == torch.bfloat16 and device == "cpu":
                            given = {key: x.to(dtype) if x.is_floating_point() else x for key, x in inputs.items()}
                            ran = kernels(lambda: patched(**given))
                            self.assertEqual(ran, architecture.families)

    def test_eager_attention_stays(self) -> None:
        """With its weights, and with Gemma 2's capped scores."""
        for name in ("llama", "gemma2"):
            model = ARCHITECTURES[name].make(torch.float32, attn_implementation="eager")
            inputs = ARCHITECTURES[name].inputs()
            before = model(**inputs, output_attentions=True)
            self.assertEqual(kl.patch(model)["attention"], "stays eager: only sdpa is swapped")
            after = model(**inputs, output_attentions=True)
            self.assert_near(after.logits, before.logits, torch.float32)
            self.assertEqual(len(after.attentions), 1)
            self.assert_near(after.attentions, before.attentions, torch.float32)

    def test_attention_may_be_chosen_after_patching(self) -> None:
        architecture = ARCHITECTURES["llama"]
        model, inputs = architecture.make(torch.bfloat16), architecture.inputs()
        expected = model(**inputs).logits
        kl.patch(model)
        self.assertIn("attention", kernels(lambda: model(**inputs)))
        for chosen in ("eager", "sdpa"):
            model.set_attn_implementation(chosen)
            self.assert_near(model(**inputs).logits, expected, torch.bfloat16)
        self.assertIn("attention", kernels(lambda: model(**inputs)))

    def test_another_model_of_the_same_configuration_is_not_patched(self) -> None:
        import transformers

        architecture = ARCHITECTURES["llama"]
        model, inputs = architecture.make(torch.bfloat16), architecture.inputs()
        other = transformers.LlamaForCausalLM(model.config).to(torch.bfloat16)
        kl.patch(model)
        self.assertEqual(model.config._attn_implementation, "sdpa")
        self.assertEqual(kernels(lambda: other(**inputs)), set())

    def test_compile_with_dynamic_shapes(self) -> None:
        architecture = ARCHITECTURES["llama"]
        model, inputs = architecture.make(torch.bfloat16), architecture.inputs()
        expected = model(**inputs).logits
        kl.patch(model)
        for dynamic in (False, True):
            torch.compiler.reset()
            compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            self.assert_near(compiled(**inputs).logits, expected, torch.bfloat16)

    def test_masks_and_dropout_stay(self) -> None:
        architecture = ARCHITECTURES["llama"]
        model, inputs = architecture.make(torch.bfloat16), architecture.inputs()
        mask = torch.ones_like(inputs["input_ids"])
        mask[0, :4] = 0
        expected = model(**inputs, attention_mask=mask).logits
        done = kl.patch(model)
        self.assertRegex(done["attention"], "sdpa -> kernel_ladder.ops.attention, and sdpa for masks")
        self.assertFalse(kl.patch(model))
        self.assert_near(model(**inputs, attention_mask=mask).logits, expected, torch.bfloat16)
        self.assertNotIn("attention", kernels(lambda: model(**inputs, attention_mask=mask)))
        torch.use_deterministic_algorithms(True)
        try:
            self.assertNotIn("attention", kernels(lambda: model(**inputs)))
        finally:
            torch.use_deterministic_algorithms(False)

    def test_generation(self) -> None:
        """With its cache; a model patched after it was doubled, too."""
        for dtype in (torch.float32, torch.bfloat16):
            model = ARCHITECTURES["llama"].make(dtype)
            ids = torch.randint(3, 60, (1, 7))
            settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
            expected = model.generate(ids, **settings)
            kl.patch(model)
            self.assert_same(model.generate(ids, **settings), expected)


if __name__ == "__main__":
    skips.main()
