//! What providers say went wrong: by status, by code and by wording, before the answer and in its midst.

use everturn_llm::Protocol;

use super::{PROTOCOLS, ask, check, failure, told};
use everturn_testkit::ModelServer;

/// What a status means by itself. Every protocol has its own shape of body around it.
#[tokio::test]
async fn by_status() {
    for protocol in PROTOCOLS {
        check(
            protocol,
            &[
                ("ERR:400", "invalid request 400, give up"),
                ("ERR:401", "authentication 401, give up"),
                ("ERR:402", "quota 402, give up"),
                ("ERR:403", "authentication 403, give up"),
                ("ERR:404", "invalid request 404, give up"),
                ("ERR:408", "server 408, again after 2 s"),
                ("ERR:409", "server 409, again after 2 s"),
                ("ERR:413", "context overflow 413, give up"),
                ("ERR:422", "invalid request 422, give up"),
                ("ERR:429", "rate limit 429, again after 2 s"),
                ("ERR:500", "server 500, again after 2 s"),
                ("ERR:502\nERRBODY:<html><h1>Bad Gateway</h1></html>", "server 502, again after 2 s"),
                ("ERR:503", "overloaded 503, again after 2 s"),
                ("ERR:504\nERRBODY:", "server 504, again after 2 s"),
                ("ERR:524", "server 524, again after 2 s"),
                ("ERR:529", "overloaded 529, again after 2 s"),
            ],
        )
        .await;
    }
}

/// What breaks on the way is the same in all protocols.
#[tokio::test]
async fn on_the_way() {
    for protocol in PROTOCOLS {
        check(
            protocol,
            &[
                ("CUT:0 SAY:one two", "transport before the first byte, again after 2 s"),
                ("CUT:9 SAY:one two", "transport after the first byte, again after 2 s"),
                ("DROP:1 SAY:one two", "transport after the first byte, again after 2 s"),
                ("GARBLE SAY:one two", "malformed 200, give up"),
                ("SHORT:1 SAY:one two", "incomplete, again after 2 s"),
            ],
        )
        .await;
        let gone = ModelServer::start().base_url();
        let error = failure(ask(gone, protocol, "hi")).await;
        assert_eq!(told(&error), "transport before the first byte, again after 2 s", "{protocol}: {error:?}");
    }
}

#[tokio::test]
async fn openai() {
    for protocol in [Protocol::OpenAiChat, Protocol::OpenAiResponses] {
        check(
            protocol,
            &[
                (
                    "ERR:401 ERRTYPE:invalid_request_error ERRCODE:invalid_api_key\nERRTEXT:Incorrect API key provided: sk-1.",
                    "authentication 401, give up",
                ),
                // xAI
                (
                    "ERR:400\nERRBODY:{\"code\":\"Client specified an invalid argument\",\"error\":\"Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai.\"}",
                    "authentication 400, give up",
                ),
                (
                    "ERR:429 ERRTYPE:insufficient_quota ERRCODE:insufficient_quota\nERRTEXT:You exceeded your current quota, please check your plan and billing details.",
                    "quota 429, give up",
                ),
                // DeepSeek
                (
                    "ERR:402 ERRTYPE:unknown_error ERRCODE:invalid_request_error\nERRTEXT:Insufficient Balance",
                    "quota 402, give up",
                ),
                // OpenRouter
                (
                    "ERR:402\nERRBODY:{\"error\":{\"message\":\"This request requires more credits, or fewer max_tokens.\",\"code\":402}}",
                    "quota 402, give up",
                ),
                (
                    "ERR:503 ERRTYPE:server_error\nERRTEXT:The engine is currently overloaded, please try again later",
                    "overloaded 503, again after 2 s",
                ),
                // Mistral
                (
                    "ERR:429\nERRBODY:{\"object\":\"error\",\"message\":\"Service tier capacity exceeded for this model.\",\"type\":\"service_tier_capacity_exceeded\",\"code\":\"3505\"}",
                    "rate limit 429, again after 2 s",
                ),
                (
                    "ERR:400 ERRTYPE:invalid_request_error ERRCODE:content_filter\nERRTEXT:The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                    "content filter 400, give up",
                ),
                (
                    "ERR:400 ERRTYPE:invalid_request_error ERRCODE:invalid_prompt\nERRTEXT:Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                    "content filter 400, give up",
                ),
                // DeepSeek, Qwen, OpenRouter
                (
                    "ERR:400 ERRTYPE:invalid_request_error\nERRTEXT:Content Exists Risk",
                    "content filter 400, give up",
                ),
                (
                    "ERR:400 ERRTYPE:data_inspection_failed ERRCODE:data_inspection_failed\nERRTEXT:Input data may contain inappropriate content.",
                    "content filter 400, give up",
                ),
                (
                    "ERR:403\nERRBODY:{\"error\":{\"code\":403,\"message\":\"fake-1 requires moderation on OpenInference. Your input was flagged.\"}}",
                    "content filter 403, give up",
                ),
                (
                    "ERR:404 ERRTYPE:invalid_request_error ERRCODE:model_not_found\nERRTEXT:The model `fake-1` does not exist or you do not have access to it.",
                    "invalid request 404, give up",
                ),
                // FastAPI, behind several local servers
                (
                    "ERR:422\nERRBODY:{\"detail\":[{\"loc\":[\"body\",\"tools\"],\"msg\":\"field required\"}]}",
                    "invalid request 422, give up",
                ),
                // In mid-answer
                ("FAIL:server_error SAY:one two", "server 200, again after 2 s"),
                ("FAIL:rate_limit_exceeded SAY:one two", "rate limit 200, again after 2 s"),
                (
                    "FAIL:rate_limit_exceeded SAY:one two\nERRTEXT:Rate limit reached on tokens per min (TPM): Limit 250000. Please try again in 34.337s.",
                    "rate limit 200, again after 34.337 s as advised",
                ),
                ("FAIL:server_is_overloaded SAY:one two", "overloaded 200, again after 2 s"),
                ("FAIL:context_length_exceeded SAY:one two", "context overflow 200, give up"),
                ("FAIL:insufficient_quota SAY:one two", "quota 200, give up"),
                ("FAIL:invalid_prompt SAY:one two", "invalid request 200, give up"),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn anthropic() {
    check(
        Protocol::Anthropic,
        &[
            (
                "ERR:401 ERRTYPE:authentication_error\nERRTEXT:invalid x-api-key",
                "authentication 401, give up",
            ),
            (
                "ERR:403 ERRTYPE:permission_error\nERRTEXT:Your API key does not have permission to use the specified resource.",
                "authentication 403, give up",
            ),
            (
                "ERR:400 ERRTYPE:invalid_request_error\nERRTEXT:Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
                "quota 400, give up",
            ),
            (
                "ERR:400 ERRTYPE:invalid_request_error\nERRTEXT:You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
                "quota 400, give up",
            ),
            ("ERR:402 ERRTYPE:billing_error\nERRTEXT:There is an issue with your billing.", "quota 402, give up"),
            (
                "ERR:429 ERRTYPE:rate_limit_error\nERRTEXT:This request would exceed your organization's rate limit of 50,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.",
                "rate limit 429, again after 2 s",
            ),
            ("ERR:529 ERRTYPE:overloaded_error\nERRTEXT:Overloaded", "overloaded 529, again after 2 s"),
            ("ERR:500 ERRTYPE:api_error\nERRTEXT:Internal server error", "server 500, again after 2 s"),
            (
                "ERR:400 ERRTYPE:invalid_request_error\nERRTEXT:Output blocked by content filtering policy",
                "content filter 400, give up",
            ),
            (
                "ERR:400 ERRTYPE:invalid_request_error\nERRTEXT:messages.1: `tool_use` ids were found without `tool_result` blocks",
                "invalid request 400, give up",
            ),
            ("ERR:404 ERRTYPE:not_found_error\nERRTEXT:model: fake-1", "invalid request 404, give up"),
            // In mid-answer
            ("FAIL:overloaded_error SAY:one two", "overloaded 200, again after 2 s"),
            ("FAIL:rate_limit_error SAY:one two", "rate limit 200, again after 2 s"),
            ("FAIL:api_error SAY:one two", "server 200, again after 2 s"),
            ("FAIL:authentication_error SAY:one two", "authentication 200, give up"),
            ("FAIL:billing_error SAY:one two", "quota 200, give up"),
            ("FAIL:invalid_request_error SAY:one two", "invalid request 200, give up"),
        ],
    )
    .await;
}

#[tokio::test]
async fn gemini() {
    check(
        Protocol::Gemini,
        &[
            (
                "ERR:400 ERRTYPE:INVALID_ARGUMENT\nERRTEXT:API key not valid. Please pass a valid API key.\nERRDETAILS:[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"API_KEY_INVALID\",\"domain\":\"googleapis.com\"}]",
                "authentication 400, give up",
            ),
            // The reason alone, whatever the text may become.
            (
                "ERR:400 ERRTYPE:INVALID_ARGUMENT\nERRTEXT:No.\nERRDETAILS:[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"API_KEY_INVALID\"}]",
                "authentication 400, give up",
            ),
            (
                "ERR:403 ERRTYPE:PERMISSION_DENIED\nERRTEXT:Your API key was reported as leaked.",
                "authentication 403, give up",
            ),
            (
                "ERR:429 ERRTYPE:RESOURCE_EXHAUSTED\nERRTEXT:You exceeded your current quota, please check your plan and billing details.\nERRDETAILS:[{\"@type\":\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":[{\"quotaId\":\"GenerateRequestsPerMinutePerProjectPerModel-FreeTier\"}]},{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"34s\"}]",
                "rate limit 429, again after 34 s as advised",
            ),
            (
                "ERR:429 ERRTYPE:RESOURCE_EXHAUSTED\nERRTEXT:You exceeded your current quota, please check your plan and billing details. Please retry in 45.5s.",
                "rate limit 429, again after 45.5 s as advised",
            ),
            (
                "ERR:429 ERRTYPE:RESOURCE_EXHAUSTED\nERRTEXT:You exceeded your current quota, please check your plan and billing details.\nERRDETAILS:[{\"@type\":\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":[{\"quotaId\":\"GenerateRequestsPerMinutePerProjectPerModel-FreeTier\"},{\"quotaId\":\"GenerateRequestsPerDayPerProjectPerModel-FreeTier\"}]},{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"34s\"}]",
                "quota 429, give up",
            ),
            (
                "ERR:429 ERRTYPE:RESOURCE_EXHAUSTED\nERRTEXT:Resource has been exhausted (e.g. check quota).",
                "rate limit 429, again after 2 s",
            ),
            (
                "ERR:503 ERRTYPE:UNAVAILABLE\nERRTEXT:The model is overloaded. Please try again later.",
                "overloaded 503, again after 2 s",
            ),
            (
                "ERR:400 ERRTYPE:INVALID_ARGUMENT\nERRTEXT:Please ensure that function call turn comes immediately after a user turn.",
                "invalid request 400, give up",
            ),
            ("ERR:500 ERRTYPE:INTERNAL\nERRTEXT:An internal error has occurred.", "server 500, again after 2 s"),
            // A service that does not stream events gives a list.
            (
                "ERR:403\nERRBODY:[{\"error\":{\"code\":403,\"message\":\"Method doesn't allow unregistered callers.\",\"status\":\"PERMISSION_DENIED\"}}]",
                "authentication 403, give up",
            ),
            // In mid-answer
            ("FAIL:UNAVAILABLE SAY:one two", "overloaded 503, again after 2 s"),
            ("FAIL:RESOURCE_EXHAUSTED SAY:one two", "rate limit 429, again after 2 s"),
            ("FAIL:INTERNAL SAY:one two", "server 500, again after 2 s"),
            ("FAIL:PERMISSION_DENIED SAY:one two", "authentication 403, give up"),
            ("FAIL:INVALID_ARGUMENT SAY:one two", "invalid request 400, give up"),
        ],
    )
    .await;
}
