"""Chinese phenomena of order: good and bad hold the same words. Must not import torch.

The language of the templates is that of `templates.py`, with spaces between words; how each group balances itself is
said in `chinese.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# The place where something is done stands before the verb (在 ...), the place it is done to after it.
PLACE_POSITION = templates_of(
    "place_position",
    negated=(
        "{person} 没有 [在 {place} {activity}/{activity} 在 {place}]。",
        "{person} 没有 [离开 {place}/{place} 离开]。",
    ),
    want=("{name} 想 [在 {place} {activity}/{activity} 在 {place}]。", "{name} 想 [离开 {place}/{place} 离开]。"),
    often=(
        "{name} 常常 [在 {place} {activity}/{activity} 在 {place}]。",
        "{name} 常常 [路过 {place}/{place} 路过]。",
    ),
    may=("你 可以 [在 {place} {activity}/{activity} 在 {place}]。", "你 可以 [参观 {place}/{place} 参观]。"),
    let=(
        "{person} 让 我 [在 {place} {activity}/{activity} 在 {place}]。",
        "{person} 让 我 [打扫 {place}/{place} 打扫]。",
    ),
    daily=(
        "{name} 每天 都 [在 {place} {activity}/{activity} 在 {place}]。",
        "{name} 每天 都 [经过 {place}/{place} 经过]。",
    ),
    forbid=("请 不要 [在 {place} {activity}/{activity} 在 {place}]。", "请 不要 [进入 {place}/{place} 进入]。"),
    agree=(
        "{name} 和 {person} 约 好 [在 {place} {activity}/{activity} 在 {place}]。",
        "{name} 和 {person} 约 好 [参观 {place}/{place} 参观]。",
    ),
    saw=(
        "我 看见 {person} [在 {place} {activity}/{activity} 在 {place}]。",
        "我 看见 {person} [走进 {place}/{place} 走进]。",
    ),
    yesterday=(
        "{name} 昨天 没 [在 {place} {activity}/{activity} 在 {place}]。",
        "{name} 昨天 没 [找到 {place}/{place} 找到]。",
    ),
)

# When something is done stands before the verb, how long it is done after it.
TIME_POSITION = templates_of(
    "time_position",
    plan=("{person} 打算 [{time} {last}/{last} {time}]。", "{person} 打算 [{last} {span}/{span} {last}]。"),
    must=("{person} 必须 [{time} {last}/{last} {time}]。", "{person} 必须 [{last} {span}/{span} {last}]。"),
    want=("{name} 想 [{time} {last}/{last} {time}]。", "{name} 想 [{last} {span}/{span} {last}]。"),
    ask=(
        "{person} 要求 我们 [{time} {last}/{last} {time}]。",
        "{person} 要求 我们 [{last} {span}/{span} {last}]。",
    ),
    hear=("听说 {name} 要 [{time} {last}/{last} {time}]。", "听说 {name} 要 [{last} {span}/{span} {last}]。"),
    perhaps=("{name} 可能 [{time} {last}/{last} {time}]。", "{name} 可能 [{last} {span}/{span} {last}]。"),
    hope=("我 希望 {name} [{time} {last}/{last} {time}]。", "我 希望 {name} [{last} {span}/{span} {last}]。"),
    advise=(
        "{person} 建议 {name} [{time} {last}/{last} {time}]。",
        "{person} 建议 {name} [{last} {span}/{span} {last}]。",
    ),
    decide=(
        "{name} 和 {person} 决定 [{time} {last}/{last} {time}]。",
        "{name} 和 {person} 决定 [{last} {span}/{span} {last}]。",
    ),
    why=(
        "{name} 为什么 要 [{time} {last}/{last} {time}]？",
        "{name} 为什么 要 [{last} {span}/{span} {last}]？",
    ),
)

# A relative clause ends with 的 and stands before its noun: of the thing taken, or of the person who takes it.
RELATIVE_CLAUSE = templates_of(
    "relative_clause",
    present=(
        "{name} {take} [的 {thing}/{thing} 的] 很 {quality}。",
        "{take} [{thing} 的/的 {thing}] 人 是 {name}。",
    ),
    here=(
        "{name} 昨天 {take} [的 {thing}/{thing} 的] 在 这里。",
        "昨天 {take} [{thing} 的/的 {thing}] 人 在 这里。",
    ),
    like=("我 喜欢 {name} {take} [的 {thing}/{thing} 的]。", "我 认识 {take} [{thing} 的/的 {thing}] 人。"),
    gone=(
        "你 {take} [的 {thing}/{thing} 的] 真 {quality}。",
        "那 位 {take} [{thing} 的/的 {thing}] {person} 走 了。",
    ),
    saw=(
        "{person} 看见 了 我 {take} [的 {thing}/{thing} 的]。",
        "{person} 看见 了 {take} [{thing} 的/的 {thing}] {person2}。",
    ),
    all=(
        "{name} {take} [的 {thing}/{thing} 的] 都 很 {quality}。",
        "{take} [{thing} 的/的 {thing}] 人 都 很 {trait}。",
    ),
    where=(
        "没 人 知道 {name} {take} [的 {thing}/{thing} 的] 在 哪里。",
        "没 人 知道 {take} [{thing} 的/的 {thing}] 人 在 哪里。",
    ),
    just_now=(
        "刚才 {name} {take} [的 {thing}/{thing} 的] 最 {quality}。",
        "刚才 {take} [{thing} 的/的 {thing}] {person} 是 {name}。",
    ),
    who=("谁 {take} [的 {thing}/{thing} 的] 最 {quality}？", "{take} [{thing} 的/的 {thing}] 人 是 谁？"),
    not_want=(
        "{person} 不 想 要 {name} {take} [的 {thing}/{thing} 的]。",
        "{person} 不 想 见 {take} [{thing} 的/的 {thing}] 人。",
    ),
)
