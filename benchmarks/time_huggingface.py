"""Times one piece of work with Hugging Face's XLNet. Started by run.py, in a process of its own.

Needs torch and transformers, see scripts/setup_benchmark.sh.
"""

import contextlib

import torch
import transformers
import work as works


def model_config(config, dropout=0.1):
    """Our architecture (a dict) as theirs."""
    return transformers.XLNetConfig(
        vocab_size=config["n_token"],
        d_model=config["d_model"],
        n_layer=config["n_layer"],
        n_head=config["n_head"],
        d_inner=config["d_inner"],
        ff_activation="gelu_new",
        untie_r=config["untie_r"],
        attn_type="bi",
        dropout=dropout,
        summary_last_dropout=dropout,
        num_labels=2,
    )


def permutation_inputs(arrays):
    """perm_mask [B,Q,Q] and target_mapping [B,P,Q], float32, from ranks and positions."""
    rank = torch.from_numpy(arrays["rank"]).long()
    positions = torch.from_numpy(arrays["positions"]).long()
    is_target = torch.zeros_like(rank).scatter(1, positions, 1)
    hidden = (rank + 1 - is_target)[:, :, None] <= rank[:, None, :]
    mapping = torch.nn.functional.one_hot(positions, rank.shape[1])
    return hidden.float(), mapping.float()


class Step:
    """One step of `work`, as a function without arguments."""

    def __init__(self, work, config, precision, compiled, device):
        self.work, self.precision, self.device = work, precision, device
        theirs = model_config(config)
        if work.kind == "pretrain":
            theirs.mem_len, theirs.reuse_len = work.memory, work.length // 2
            theirs.bi_data = True
            self.model = transformers.XLNetLMHeadModel(theirs).train()
        else:
            self.model = transformers.XLNetForSequenceClassification(theirs)
            self.model.train(work.kind == "finetune")
        self.model.to(device)
        if work.kind == "infer" and precision == "bf16":
            self.model.to(torch.bfloat16)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, weight_decay=0.01
        )
        if compiled:
            self.model = torch.compile(self.model)
        inputs = self._inputs(works.batch(work, config["n_token"]))
        self.inputs = {name: value.to(device) for name, value in inputs.items()}
        if work.kind == "pretrain":
            shape = [config["n_layer"], work.memory, work.batch, config["d_model"]]
            self.inputs["mems"] = list(torch.zeros(shape, device=device))

    def _inputs(self, arrays):
        inputs = {
            "input_ids": torch.from_numpy(arrays["input_ids"]).long(),
            "token_type_ids": torch.from_numpy(arrays["seg_ids"]).long(),
        }
        if self.work.kind == "pretrain":
            inputs["perm_mask"], inputs["target_mapping"] = permutation_inputs(arrays)
            positions = torch.from_numpy(arrays["positions"]).long()
            inputs["labels"] = inputs["input_ids"].gather(1, positions)
        else:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        if self.work.kind == "finetune":
            inputs["labels"] = torch.from_numpy(arrays["labels"]).long()
        return inputs

    def _precision(self):
        if self.precision == "bf16" and self.work.kind != "infer":
            return torch.autocast(self.device, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def __call__(self):
        self._step()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _step(self):
        if self.work.kind == "infer":
            with torch.inference_mode():
                self.model(**self.inputs, use_mems=False)
            return
        pretraining = self.work.kind == "pretrain"
        with self._precision():
            outputs = self.model(**self.inputs, use_mems=pretraining)
        outputs.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if pretraining:
            self.inputs["mems"] = [memory.float() for memory in outputs.mems]


def peak_gib():
    return torch.cuda.max_memory_allocated() / 2**30


def main():
    options = works.arguments()
    device = "cuda" if options["device"] == "gpu" else "cpu"
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True  # as this library does
    work, precision = works.Work(**options["work"]), options["precision"]
    step = Step(work, options["config"], precision, options["compiled"], device)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    peak = peak_gib if device == "cuda" else None
    works.measure(step, options, versions, peak)


if __name__ == "__main__":
    main()
