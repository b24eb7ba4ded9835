"""Generates text with a pretrained model, causal or permutation: sampled, greedy or by beam search.

The text is shown as it is generated.
"""

from xlnet import cli
from xlnet.programs import asking
from xlnet.serving.settings import GenerationSettings, LoadSettings, stop_texts


def main(model_settings: LoadSettings, settings: asking.AskingSettings,
         how: GenerationSettings) -> None:
    chosen = dict(vars(how), stop=stop_texts(how.stop))
    with asking.load(model_settings) as model:
        def answer(text):
            whole = {part.number: part.whole for part in model.stream(text, **chosen)
                     if part.whole}
            for number, written in sorted(whole.items()):
                yield {"prompt": text, "number": number, **written._asdict()}

        def show(text):
            if how.samples == 1:
                print(text, end="", flush=True)
            for part in model.stream(text, **chosen):
                if how.samples == 1:
                    print(part.text, end="", flush=True)
                elif part.whole:
                    print("[%d] %s%s" % (part.number + 1, text, part.whole.text), flush=True)
            if how.samples == 1:
                print(flush=True)
        asking.run(settings, answer, show)


def run() -> None:
    cli.run(main, LoadSettings, asking.AskingSettings, GenerationSettings, about=__doc__, examples=(
        "--model_dir=model --text='Once upon' --top_p=0.9 --seed=1",
        "--model_dir=model --interactive --method=beam"))
