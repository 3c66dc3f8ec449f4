"""Chinese texts of the monthly report, by their English format strings."""

from __future__ import annotations

from collections.abc import Mapping

CHINESE: Mapping[str, str] = {
    "GPU usage {}": "GPU 用量 {}",
    # Parts of the capacity.
    "busy": "在用",
    "held, idle": "占用却空闲",
    "held, unknown": "占用但未知",
    "free": "未占用",
    "unusable": "不可用",
    "unsized": "份额未知",
    "capacity": "容量",
    "held, measured and used": "已占用，有测量，在使用",
    "held, measured and not used": "已占用，有测量，没有用上",
    "held, not measured": "已占用，没有任何测量",
    "not held": "没有被占用",
    "not held, on nodes that take no pods": "没有被占用，所在节点不接受 Pod",
    "held by pods with an unknown share of a card, or not held": ("由所占份额大小未知的 Pod 占用，或没有被占用"),
    "all of it": "全部",
    # Titles.
    "GPU capacity and use": "GPU 的去向",
    "Use of the capacity": "容量的去向",
    "Day by day": "逐日用量",
    "GPU-hours of each day": "每日 GPU 小时",
    "By namespace": "按命名空间",
    "By {}": "按 {}",
    "By model": "按型号",
    "Workloads that held the most": "占用最多的工作负载",
    "Workloads that left the most idle": "空闲最多的工作负载",
    "Unknown": "未知的部分",
    # Headings and rows.
    "part": "部分",
    "what it is": "含义",
    "GPU-hours": "GPU 小时",
    "share": "占比",
    "namespace": "命名空间",
    "model": "型号",
    "workload": "工作负载",
    "kind": "类型",
    "of capacity": "占容量",
    "idle": "空闲",
    "unknown": "未知",
    "use": "利用率",
    "measured": "已测量",
    "cost": "费用",
    "idle cost": "空闲费用",
    "free cost": "未占用费用",
    "price": "价格",
    "held": "占用",
    "all": "合计",
    "{} others": "其他 {} 个",
    "{} from {}": "{1} 起 {0}",
    # Texts of plots.
    "{}: {} GPU-hours ({})": "{}：{} GPU 小时（{}）",
    "{}, {}: {} GPU-hours": "{}，{}：{} GPU 小时",
    # Sentences.
    "Cluster: {}": "集群：{}",
    "Time: {} to {} ({})": "时间：{} 至 {}（{}）",
    "Held: {} of the capacity": "占用：容量的 {}",
    "Used: {} of what was measured": "利用率：已测量部分的 {}",
    "Measured: {} of what was held": "已测量：占用部分的 {}",
    "Held: unknown share of the capacity": "占用：未知",
    "Used: unknown share of what was measured": "利用率：未知",
    "Measured: nothing of what was held": "已测量：无",
    "Known: {}": "已知：{}",
    "{} of {} hours": "{1} 小时中的 {0} 小时",
    "{} of {} hours, {} to {}": "{1} 小时中的 {0} 小时，{2} 至 {3}",
    "State: final": "状态：已确定",
    "State: provisional, the month is not over": "状态：暂定，当月尚未结束",
    "State: provisional, late measurements may still change some hours": "状态：暂定，迟到的测量仍可能改变部分小时",
    "Made: {} ({})": "生成时间：{}（{}）",
    "Made: {} ({}), with the prices in platform.yaml at that time": "生成时间：{}（{}），价格取自当时的 platform.yaml",
    "{} is what workloads without this label held.": "{} 是没有这个标签的工作负载所占用的部分。",
    "{} is what workloads without this annotation held.": "{} 是没有这个注解的工作负载所占用的部分。",
    "No prices are set: set usage.prices.models in platform.yaml.": (
        "没有设置价格：价格写在 platform.yaml 的 usage.prices.models 中。"
    ),
    "{} of the models have no price: the total cost is unknown.": "{} 个型号没有价格：合计费用未知。",
    "A cost is `-` if a price changes within a day whose hours are no longer kept.": (
        "如果价格在某一天中间变化，而这一天的小时数据已经清理，费用显示 `-`。"
    ),
    "A cost is `-` if a GPU model has no price, or if the pods that held GPUs are not kept for the whole month.": (
        "如果某个 GPU 型号没有价格，或者没有保存整个月内哪些 Pod 占用 GPU，费用显示 `-`。"
    ),
    "An idle cost is `-` if one workload held GPUs of several prices: which of them were idle is unknown.": (
        "如果一个工作负载占用过几种价格的 GPU，空闲费用显示 `-`：其中哪些空闲是未知的。"
    ),
    "Idle is what was held, measured and not used: a GPU that is used by 30 % is idle by 70 %.": (
        "空闲是已占用、有测量但没有用上的部分：一张 GPU 用了 30 %，就有 70 % 是空闲。"
    ),
    "{} GPU-hours were held but not measured: they are neither busy nor idle.": (
        "有 {} GPU 小时在占用期间没有任何测量：既不算在用，也不算空闲。"
    ),
    "{} are known; the figures cover only these.": "已知的是 {}；数字只包括这一部分。",
    "Every hour of the month is known.": "当月的每个小时都已知。",
    "GPU-hours are rounded to tenths, and money to hundredths, so that each column adds up to its last row; what "
    "stands beside each other may differ from its sum in the last digit.": (
        "GPU 小时舍入到十分位，金额舍入到百分位，使每一列加起来等于最后一行；同一行各数之和可能在末位上有差异。"
    ),
    "{} known hours are not drawn: only whole days of UTC are kept, which overlap two days of this zone.": (
        "有 {} 个已知小时没有画出：只保存了 UTC 的整天数据，而本时区的一天会把它分开。"
    ),
    "These are {} GPU-hours more than the cluster's: the ledger is open.": "比集群的合计多 {} GPU 小时：账本不平。",
    "These are {} GPU-hours less than the cluster's: the ledger is open.": "比集群的合计少 {} GPU 小时：账本不平。",
}
