"""Where things are."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
RELEASED = GOLDEN / "untied_gelu_checkpoint"  # 37 tokens, 2 layers, d_model 16

# Data that is not part of the repository. Tests that need it are skipped without it.
SHARED = ROOT.parent / "shared"
DATA = SHARED / "data"
SPIECE = DATA / "xlnet_spiece" / "spiece.model"  # the released vocabulary
FOLDERS = {  # below DATA, by task
    "imdb": "aclImdb",
    "ag_news": "ag_news_csv",
    "yelp-5": "yelp_review_full_csv",
    "race": "RACE",
    "race-middle": "RACE",
    "tnews": "clue/tnews",
    "afqmc": "clue/afqmc",
    "chnsenticorp": "ChnSentiCorp",
    "cola": "glue/CoLA",
    "sst-2": "glue/SST-2",
    "mrpc": "glue/MRPC",
    "sts-b": "glue/STS-B",
    "qqp": "glue/QQP",
    "mnli": "glue/MNLI",
    "qnli": "glue/QNLI",
    "rte": "glue/RTE",
    "wnli": "glue/WNLI",
    "ax": "glue/AX",
    "conll2003": "conll2003",
    "msra_ner": "msra_ner",
    "resume_ner": "ResumeNER",
}
