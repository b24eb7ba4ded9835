"""Times inference with OpenVINO or ONNX Runtime. Started by run.py, in a process of its own.

The network is Hugging Face's XLNet as an ONNX file of fixed shapes: both run the same one. Needs
what scripts/setup_benchmark.sh installs for Hugging Face.
"""

import concurrent.futures
import multiprocessing
import os
import sys

import numpy as np
import work as works

MODEL_ENDINGS = {"openvino": ".xml", "onnxruntime": ".onnx"}
CALIBRATION_BATCHES = (
    4  # of random tokens, for the ranges of OpenVINO's int8 activations
)


def inputs_of(work, vocabulary, seed=0):
    """Random inputs by name, int64 [B,Q]."""
    arrays = works.batch(work, vocabulary, seed)
    return {
        "input_ids": arrays["input_ids"].astype(np.int64),
        "token_type_ids": arrays["seg_ids"].astype(np.int64),
    }


def write_onnx(work, config, path):
    """Exports the classifier with random weights."""
    import torch
    import transformers
    from time_huggingface import model_config

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.XLNetForSequenceClassification(
                model_config(config)
            )

        def forward(self, input_ids, token_type_ids):
            mask = torch.ones_like(input_ids)
            return self.model(
                input_ids,
                attention_mask=mask,
                token_type_ids=token_type_ids,
                use_mems=False,
            ).logits

    torch.manual_seed(0)
    inputs = inputs_of(work, config["n_token"])
    torch.onnx.export(
        Classifier().eval(),
        tuple(torch.from_numpy(value) for value in inputs.values()),
        path,
        input_names=list(inputs),
        output_names=["logits"],
        dynamo=False,
    )


def write_model(work, config, runtime, quantize, folder):
    """Writes what the runtime reads to `folder`, unless an earlier worker has; returns its path."""
    full = os.path.join(folder, "xlnet.onnx")
    if not os.path.exists(full):
        write_onnx(work, config, full)
    if not quantize:
        return full
    quantized = os.path.join(folder, f"{runtime}-int8" + MODEL_ENDINGS[runtime])
    if os.path.exists(quantized):
        return quantized
    if runtime == "onnxruntime":  # weights beforehand, activations in each call
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(full, quantized)
        return quantized
    import nncf
    import openvino

    batches = [
        inputs_of(work, config["n_token"], seed=1 + i)
        for i in range(CALIBRATION_BATCHES)
    ]
    model = nncf.quantize(
        openvino.Core().read_model(full),
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=CALIBRATION_BATCHES,
    )
    openvino.save_model(model, quantized, compress_to_fp16=False)
    return quantized


def openvino_step(path, inputs, precision):
    """A call of OpenVINO's CPU plugin, and its version."""
    import openvino

    hints = {
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(path, "CPU", hints).create_infer_request()
    version = openvino.__version__.partition("-")[0]
    return lambda: request.infer(inputs), "OpenVINO " + version


def onnxruntime_step(path, inputs):
    """A call of ONNX Runtime's CPU provider, and its version."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs), "ONNX Runtime " + onnxruntime.__version__


def main():
    options = works.arguments()
    work, config = works.Work(**options["work"]), options["config"]
    runtime, quantize = options["runtime"], options["quantize"]
    if runtime == "onnxruntime" and options["precision"] != "fp32":
        sys.exit("has no bfloat16 on a CPU")
    # In a process of its own: PyTorch's memory is not the runtime's. If it is killed, as where
    # memory is short, this executor says so; `multiprocessing.Pool` would wait forever.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as writer:
        exported = writer.submit(
            write_model, work, config, runtime, quantize, options["exports"]
        )
        path = exported.result()
    inputs = inputs_of(work, config["n_token"])
    step, version = (
        openvino_step(path, inputs, options["precision"])
        if runtime == "openvino"
        else onnxruntime_step(path, inputs)
    )
    works.measure(step, options, version=version)


if __name__ == "__main__":
    main()
